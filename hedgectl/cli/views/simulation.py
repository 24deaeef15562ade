"""The replay: is the model of the engines right, and what happens at which load, as is, better routed and hedged."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, count, ms, quantile, share, window

ARMS = (("as is", "unhedged"), ("better routed", "better_routed"), ("hedged", "hedged"))


def view(doc: dict[str, Any]) -> View:
    blocks: list[Block] = [Text(window(doc))] if doc.get("window") else []
    engine = doc.get("engine") or {}
    if engine:
        source = engine.get("source") or {}
        facts = [
            f"{count(engine[key])} {words} ({source.get(key, 'log')})"
            for key, words in (
                ("replicas", "replicas"),
                ("max_running_requests", "running at most"),
                ("kv_capacity_tokens", "cache tokens"),
            )
            if engine.get(key) is not None
        ]
        blocks.append(Text(", ".join(facts), "engine"))
    blocks += _check(doc.get("replay_check"))
    rows, records = [], []
    for load in doc.get("loads") or []:
        shown = [(name, load[key]) for name, key in ARMS if load.get(key)]
        beside = [load["label"], *_facts(load), "", ""]
        for (name, arm), at_left in zip(shown, beside, strict=False):
            rows.append(
                [
                    at_left,
                    name,
                    *(quantile(arm.get("e2e_ms"), p) for p in ("p50", "p95", "p99")),
                    *(quantile(arm.get("ttft_ms"), p) for p in ("p95", "p99")),
                    share(arm.get("hedge_rate")),
                    share(arm.get("win_rate"), 0),
                    count((arm.get("gpu_seconds") or {}).get("wasted")) if arm.get("gpu_seconds") else UNKNOWN,
                ]
            )
            records.append(_record(load, name, arm))
    if rows:
        columns = ("load", "arm", "e2e p50", "p95", "p99", "TTFT p95", "p99", "copies", "wins", "wasted s")
        blocks.append(Table("", columns, rows, records=records, main=True, left=2))
        blocks.append(Text("GPU seconds of losers in the whole window", "wasted s"))
    holds = doc.get("holds_up_to") or {}
    if holds.get("scale") is not None:
        blocks.append(Text(f"up to {holds['scale']:.2f} times today's load: {holds.get('reason') or ''}", "holds"))
    elif holds:
        blocks.append(Text(f"at no load replayed: {holds.get('reason') or ''}", "holds"))
    worst = doc.get("worst_of") or {}
    if worst:
        blocks.append(Text(", ".join(str(v).replace("_", " ") for v in worst.values() if v), "worst of"))
    return [*blocks, *notes(doc)]


def _facts(load: dict[str, Any]) -> list[str]:
    """What stands under a load's name: how much it is, and whether the fleet keeps up."""
    rho = "" if load.get("rho") is None else f", rho {load['rho']:.2f}"
    return [f"x {load['scale']:.2f}{rho}", "NOT STABLE" if load.get("stable") is False else ""]


def _check(check: dict[str, Any] | None) -> list[Block]:
    if not check:
        return []
    rows = []
    for metric, name in (("e2e_ms", "e2e"), ("ttft_ms", "TTFT")):
        for p, value in (check.get(metric) or {}).items():
            if value and value.get("observed") is not None and value.get("replayed") is not None:
                error = value.get("error_ratio")
                limit = value.get("limit_ratio")
                rows.append(
                    [
                        f"{name} {p}",
                        ms(value["observed"]),
                        ms(value["replayed"]),
                        UNKNOWN if error is None else f"{100 * error:+z.1f} %",
                        UNKNOWN if limit is None else f"{100 * limit:.0f} %",
                    ]
                )
    verdict = (
        "the replay without hedging agrees with the log"
        if check.get("passed")
        else "THE REPLAY DOES NOT AGREE WITH THE LOG: do not rely on it"
    )
    return (
        [Text(verdict, "check", "bold"), Table("", ("percentile", "observed", "replayed", "error", "limit"), rows)]
        if rows
        else []
    )


def _record(load: dict[str, Any], name: str, arm: dict[str, Any]) -> dict[str, Any]:
    record = {
        "load": load["label"],
        "scale": load["scale"],
        "rho": load.get("rho"),
        "stable": load.get("stable"),
        "arm": name,
    }
    record |= {k: v for k, v in arm.items() if not isinstance(v, dict)}
    for metric in ("e2e_ms", "ttft_ms"):
        record |= {f"{metric}_{p}": (arm.get(metric) or {}).get(p) for p in ("n", "p50", "p95", "p99")}
    return record
