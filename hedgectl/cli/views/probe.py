"""A probe: both arms beside each other, their difference, what the copies did, what cancelling did, what it cost."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, change, count, money, ms, quantile, share

_ARMS = ("unhedged", "hedged")
_METRICS = (
    ("ttft_ms", "TTFT"),
    ("ttfc_streamed_ms", "first content, streamed"),
    ("ttfc_whole_ms", "first content, whole"),
    ("e2e_ms", "e2e"),
)


def view(doc: dict[str, Any]) -> View:
    if doc.get("stopped_early") == "dry_run":
        return [Text("dry run: nothing was sent"), _plan(doc)]
    blocks: list[Block] = []
    if doc.get("void"):
        blocks.append(Text(doc["void"], "VOID", "bold"))
    blocks.append(Text(_what(doc)))
    blocks += _arms(doc, None)
    for part in doc.get("by_rate") or []:
        blocks += _arms(part, part["rate_per_s"])
    blocks.append(Text(_copies(doc["arms"]["hedged"]), "copies"))
    cancel = doc["cancel"]
    known = cancel["engine_stopped"] != "unknown"
    then = f"; elsewhere: --cancel {cancel['assume']}" if known else "; --check-cancel 3 looks closer"
    blocks.append(Text(f"engine stopped: {cancel['engine_stopped']} ({cancel['evidence']}){then}", "cancel"))
    blocks.append(Text(_signals(doc), "signals"))
    blocks.append(Text(_spend(doc["spend"]), "spend"))
    lag = doc["client_lag_ms"]
    blocks.append(Text(f"p50 {ms(lag.get('p50'))}, p95 {ms(lag.get('p95'))}, p99 {ms(lag.get('p99'))}", "lag"))
    blocks.append(Text(_accounting(doc["accounting"]), "sent"))
    return [*blocks, *notes(doc)]


def _what(doc: dict[str, Any]) -> str:
    rates = ", ".join(f"{rate:g}" for rate in doc["rates_per_s"])
    arms = "alternating blocks" if doc["comparison"] == "blocks" else "a coin for each request"
    text = f"{doc['target']}, model {doc.get('model') or UNKNOWN}: {count(doc['sent'])} of {count(doc['planned'])} requests"
    return f"{text} at {rates} per second, arms by {arms}, times from the planned start"


def _arms(doc: dict[str, Any], rate: float | None) -> list[Block]:
    rows, records = [], []
    for key, name in _METRICS:
        change_of = doc["change"].get(f"{key.removesuffix('_ms')}_p95")
        for arm in _ARMS:
            values = doc["arms"][arm][key]
            if not values["n"] and not values.get("at_least"):
                continue
            rows.append(
                [
                    name if arm == "unhedged" else "",
                    arm,
                    count(values["n"]),
                    *(quantile(values, p) for p in ("p50", "p95", "p99")),
                    _change(change_of) if arm == "hedged" else "",
                ]
            )
            records.append(
                {"rate_per_s": rate, "metric": key, "arm": arm, **{p: values[p] for p in ("n", "p50", "p95", "p99")}}
            )
    errors = [
        f"{arm}: " + ", ".join(f"{kind} {n}" for kind, n in doc["arms"][arm]["errors"].items())
        for arm in _ARMS
        if doc["arms"][arm]["errors"]
    ]
    late = [f"{arm}: {count(n)} beyond the deadline" for arm in _ARMS if (n := doc["arms"][arm]["timeouts"])]
    title = "" if rate is None else f"at {rate:g} per second"
    columns = ("metric", "arm", "n", "p50", "p95", "p99", "change of p95")
    blocks: list[Block] = [Table(title, columns, rows, records=records, main=rate is None, left=2)]
    if errors or late:
        blocks.append(Text("; ".join([*errors, *late]), "errors"))
    return blocks


def _change(found: dict[str, Any] | None) -> str:
    if not found or found["ratio"] is None:
        return UNKNOWN
    if found["interval"] is None:
        return f"{change(found['ratio'])} (too few to tell)"
    low, high = found["interval"]
    text = f"{change(found['ratio'])} [{change(low)}, {change(high)}]"
    return text if found["significant"] else f"{text} not significant"


def _copies(arm: dict[str, Any]) -> str:
    refused = ", ".join(f"{kind} {n}" for kind, n in arm["hedges_refused"].items() if n)
    text = f"{count(arm['hedges'])} copies for {count(arm['requests'])} requests ({share(arm['hedge_rate'])})"
    text += f", {count(arm['wins'])} won ({share(arm['win_rate'], 0)} of copies)"
    text += f", cancels {share(arm['cancels_per_request'])} of requests, {share(arm['cancels_per_hedge'], 0)} of copies"
    return text + (f"; refused: {refused}" if refused else "")


def _signals(doc: dict[str, Any]) -> str:
    signals = doc["signals"]
    live = [
        f"{s['signal']} {s['op']} {s['value']:g}" + (" (stands in)" if s["stand_in"] else "")
        for s in signals["enforced"]
    ]
    text = "no copy while " + " or ".join(live) if live else "no suppression by load"
    missing = signals["not_enforced"]
    return text + (f"; not enforced here: {', '.join(missing)}" if missing else "")


def _spend(spend: dict[str, Any]) -> str:
    if spend["estimated"] is None:
        return "unknown: no price for this model"
    text = f"{money(spend['estimated'], spend['currency'])} with losers billed in full"
    if spend["low"] != spend["high"]:
        text += f", {money(spend['low'], spend['currency'])} if only for their prompt"
    return text + (f"; cap {money(spend['cap'], spend['currency'])}" if spend["cap"] is not None else "")


def _accounting(books: dict[str, Any]) -> str:
    text = f"{count(books['requests'])} requests, {count(books['attempts'])} attempts: {count(books['ok'])} ok, "
    return text + f"{count(books['error'])} failed, {count(books['censored'])} cut short (losers, timeouts)"


def _plan(doc: dict[str, Any]) -> Table:
    plan = doc["plan"]
    rows = [[key.replace("_", " "), UNKNOWN if value is None else str(value)] for key, value in plan.items()]
    return Table("", ("plan", "value"), rows, records=[plan], main=True, left=2)
