"""The figures that are read off the log itself: bands, replicas over time, the week, the tail's kinds, data quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hedgectl import decompose
from hedgectl.report.figure import Figure, Table, count, lacking, ms, percent

if TYPE_CHECKING:
    import duckdb

PARTS = ("queue", "prefill", "unsplit", "decode", "tool_wait", "other")
BANDS = ("fastest half", "p50 to p75", "p75 to p90", "p90 to p95", "p95 to p99", "slowest 1 %")
LAST = ("all requests", "slowest half", "slowest quarter", "slowest 10 %", "slowest 5 %", "slowest 1 %")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SLOTS = 60  # columns of the map of replicas
REPLICAS = 40  # rows of it
FEWEST_SLOTS = 16
LONG_NAME = 14  # characters of a replica that stand beside the map on a telephone
FEW = 5  # attempts in a cell below which no share is claimed
_LADDER_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400)
_HOUR_NS = 3_600_000_000_000

Rows = list[dict[str, Any]]


def bands(con: duckdb.DuckDBPyConnection) -> Figure:
    """The mean time of each percentile band of e2e, divided into its parts."""
    key, title = "bands", "Where the time goes, from the typical request to the slowest"
    found = decompose.rows(con, "report/bands")
    found = [r for r in found if r["mean_ms"]]
    if not found:
        return lacking(key, title, "No answered request has a duration: log when each answer ended (e2e).")
    names = [*(BANDS[r["band"]] for r in found[:-1]), LAST[found[-1]["band"]]]
    shown = [p for p in PARTS if any(r[f"{p}_ms"] for r in found)]
    drawn = [p for p in shown if any(abs(r[f"{p}_ms"]) >= 0.005 * r["mean_ms"] for r in found)]
    rows = []
    for name, r in zip(names, found, strict=True):
        for place, part in enumerate(drawn):
            value = r[f"{part}_ms"]
            rows.append(
                {
                    "band": name,
                    "mean": ms(r["mean_ms"]),
                    "part": part.replace("_", " "),
                    "place": place,
                    "share": value / r["mean_ms"],
                    "word": part.replace("_", " ") if value / r["mean_ms"] >= 0.13 else "",
                }
            )
    first, last = found[0], found[-1]
    grown = {p: last[f"{p}_ms"] - first[f"{p}_ms"] for p in shown}
    most = max(shown, key=lambda p: grown[p])
    told = [f"All requests take {ms(first['mean_ms'])} in the mean."]
    if len(found) > 1:
        told = [f"The fastest half takes {ms(first['mean_ms'])} in the mean, the {names[-1]} {ms(last['mean_ms'])}."]
    if shown == ["other"]:
        told.append("No part is timed: log the first token, or the engine's queue and prefill, to divide it.")
    elif len(found) > 1:
        grows = f"{ms(first[f'{most}_ms'])} grows to {ms(last[f'{most}_ms'])}"
        told.append(f"Most of the difference is {most.replace('_', ' ')}: {grows}.")
    if "unsplit" in drawn:
        told.append("Unsplit is time before the first token that this log cannot divide into queue and prefill.")
    says = " ".join(told)
    table = Table(
        ("band", "requests", "from", "to", "mean", *(p.replace("_", " ") for p in shown)),
        [
            (
                name,
                count(r["requests"]),
                ms(r["from_ms"]),
                ms(r["to_ms"]),
                ms(r["mean_ms"]),
                *(f"{ms(r[f'{p}_ms'])} ({percent(r[f'{p}_ms'] / r['mean_ms'], 0)})" for p in shown),
            )
            for name, r in zip(names, found, strict=True)
        ],
    )
    return Figure(key, title, says, sum(r["requests"] for r in found), rows=rows, table=table, facts={"parts": drawn})


def replicas(con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared, threshold_ms: float | None) -> list[Figure]:
    """Replica by time: the share of slow attempts over the whole window and, where its slots are long, in the worst hour."""
    key, title = "replicas", "Which replica was slow when"
    limit = None if threshold_ms is None else threshold_ms * 1e6
    first, last = prepared.facts["first_ns"], prepared.facts["last_ns"]
    if limit is None or first is None:
        return [lacking(key, title, "No tail can be told from this log: it needs answered requests with times.")]
    slot_ns = slot_for(last - first)
    start = first // slot_ns * slot_ns
    whole = _slots(con, start, last + 1, slot_ns, limit)
    while whole and _thin(whole) and (last - first) // slot_ns > FEWEST_SLOTS:
        slot_ns = slot_for(last - first, longer_than=slot_ns)
        start = first // slot_ns * slot_ns
        whole = _slots(con, start, last + 1, slot_ns, limit)
    if not whole:
        text = (
            "The log names no replica. Log the engine or deployment that served each attempt (pod name, upstream "
            "address): only then can one slow replica be told from a fleet that is slow together."
        )
        return [lacking(key, title, text)]
    if max(r["attempts"] for r in whole) < FEW:
        text = f"No replica has {FEW} attempts in {_length(slot_ns)}: log more requests to see which one was slow when."
        return [lacking(key, title, text)]
    figures = [_map(key, title, whole, start, slot_ns, threshold_ms)]
    if slot_ns > 120_000_000_000:
        worst = decompose.rows(con, "report/worst_hour", threshold_ns=limit)
        if worst and worst[0]["slow"]:
            begin = int(worst[0]["from_ns"])
            for minutes in (1, 2, 3, 5):
                slot_ns = minutes * 60_000_000_000
                close = _slots(con, begin, begin + _HOUR_NS, slot_ns, limit)
                if not _thin(close):
                    break
            if close:
                name = "The hour with the most slow attempts, close up"
                figures.append(_map("worst_hour", name, close, begin, slot_ns, threshold_ms))
    return figures


def slot_for(span_ns: int, longer_than: int = 0) -> int:
    """The shortest round slot (ns) of which at most SLOTS (and one begun) fill the span, and longer than that given."""
    for seconds in _LADDER_S:
        if span_ns <= seconds * 1_000_000_000 * SLOTS and seconds * 1_000_000_000 > longer_than:
            return seconds * 1_000_000_000
    days = max(-(-span_ns // (86_400_000_000_000 * SLOTS)), longer_than // 86_400_000_000_000 + 1)
    return days * 86_400_000_000_000


def _thin(found: Rows) -> bool:
    """Too few attempts in a cell for its share to mean anything."""
    return bool(sum(r["attempts"] for r in found) < 2 * FEW * len(found))


def _slots(con: duckdb.DuckDBPyConnection, start: int, end: int, slot_ns: int, limit: float) -> Rows:
    return decompose.rows(con, "report/replica_slots", from_ns=start, to_ns=end, slot_ns=slot_ns, threshold_ns=limit)


def _map(key: str, title: str, found: Rows, start: int, slot_ns: int, threshold_ms: float | None) -> Figure:
    totals: dict[str, list[int]] = {}
    for r in found:
        one = totals.setdefault(r["replica"], [0, 0])
        one[0] += r["attempts"]
        one[1] += r["slow"]
    kept = sorted(sorted(totals), key=lambda name: -totals[name][1])[:REPLICAS]
    slots = 1 + max(r["slot"] for r in found)
    rows = [
        {
            "replica": r["replica"],
            "from": _clock(start + r["slot"] * slot_ns),
            "to": _clock(start + (r["slot"] + 1) * slot_ns),
            "level": level(r["slow"], r["attempts"]),
        }
        for r in found
        if r["replica"] in kept
    ]
    attempts, slow = sum(t[0] for t in totals.values()), sum(t[1] for t in totals.values())
    words = _how(found, totals)
    says = (
        f"{count(slow)} of {count(attempts)} attempts took longer than {ms(threshold_ms)}. {words} "
        f"A cell is {_length(slot_ns)} of one replica: a strong spot in one row is one slow replica, a strong column is a "
        f"fleet that is slow together, a cell left out has fewer than {FEW} attempts."
    )
    begin = common_beginning(kept)
    if begin:
        says += f" Names are drawn without their common beginning, {begin}."
    rows = [{**r, "replica": r["replica"][len(begin) :]} for r in rows]
    if len(kept) < len(totals):
        says += f" The {len(totals) - len(kept)} replicas with the fewest slow attempts are in the table only."
    peak = {
        name: max(
            ((r["slow"] / r["attempts"], r) for r in found if r["replica"] == name and r["attempts"] >= FEW),
            key=lambda pair: pair[0],
            default=None,
        )
        for name in totals
    }
    table = Table(
        ("replica", "attempts", "slow", "share slow", "slowest slot (UTC)", "share slow then", "attempts then"),
        [
            (
                name,
                count(totals[name][0]),
                count(totals[name][1]),
                percent(totals[name][1] / totals[name][0]),
                *_peak(peak[name], start, slot_ns),
            )
            for name in sorted(totals)
        ],
    )
    order = [name[len(begin) :] for name in sorted(kept)]
    facts = {"order": order, "slots": slots, "slot": _length(slot_ns), "span_ns": slots * slot_ns}
    return Figure(key, title, says, attempts, "attempts", rows, facts, table, draw="heat")


def common_beginning(names: Sequence[str]) -> str:
    """What all of several long names begin with, up to a separator; pod names differ in their last part only."""
    if len(names) < 2 or max(map(len, names)) <= LONG_NAME:
        return ""
    low, high = min(names), max(names)
    same = next(
        (i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), min(len(low), len(high))
    )
    shared = low[:same]
    return shared[: 1 + max(shared.rfind(c) for c in "-_/.:@")]


def _peak(found: tuple[float, dict[str, Any]] | None, start: int, slot_ns: int) -> tuple[str, str, str]:
    if found is None:
        return ("-", "-", "-")
    share, row = found
    return (_stamp(start + row["slot"] * slot_ns), percent(share), count(row["attempts"]))


def _how(found: Rows, totals: Mapping[str, Sequence[int]]) -> str:
    """In how many bad slots one replica was slow alone, in how many most of them were."""
    if len(totals) < 2:
        return "There is one replica, so nothing can be compared."
    by_slot: dict[int, list[bool]] = {}
    for r in found:
        if r["attempts"] >= FEW:
            by_slot.setdefault(r["slot"], []).append(r["slow"] / r["attempts"] >= 0.25)
    bad = [marks for marks in by_slot.values() if any(marks) and len(marks) > 1]
    if not bad:
        return "In no slot was a quarter of a replica's attempts slow."
    alone = sum(1 for marks in bad if sum(marks) == 1 or sum(marks) <= len(marks) / 4)
    most = sum(1 for marks in bad if sum(marks) > len(marks) / 2)
    return (
        f"In {len(bad)} slots some replica was slow for a quarter of its attempts or more: in {alone} of them at most a "
        f"quarter of the replicas at once, in {most} more than half."
    )


def level(slow: int, attempts: int) -> int:
    """Class of a share of slow ones: 0 none, 1 to 5 %, 2 to 10 %, 3 to 25 %, 4 to 50 %, 5 more; -1 with too few attempts."""
    if attempts < FEW:
        return -1
    part = slow / attempts
    return 0 if not slow else 1 if part <= 0.05 else 2 if part <= 0.1 else 3 if part <= 0.25 else 4 if part < 0.5 else 5


def week(
    con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared, threshold_ms: float | None, policies: Sequence[Any]
) -> Figure:
    """Hour by weekday: when requests are slow, with the hours in which the policy sends copies."""
    key, title = "week", "At which hours requests are slow"
    windows = [w for p in policies for w in p.get("windows_utc") or []]
    zone = "UTC" if windows else prepared.selection.tz or "UTC"
    first, last = prepared.facts["first_ns"], prepared.facts["last_ns"]
    if threshold_ms is None or first is None:
        return lacking(key, title, "No tail can be told from this log: it needs answered requests with times.")
    days = (last - first) / (24 * _HOUR_NS)
    if days < 2:
        text = (
            f"The log spans {24 * days:.1f} hours; a daily pattern needs days, best two weeks. Keep them with "
            "hedgectl ingest LOG... --db FILE, then report with --db FILE."
        )
        return lacking(key, title, text)
    found = decompose.rows(con, "report/hour_weekday", tz=zone, threshold_ns=threshold_ms * 1e6)
    rows = [
        {
            "day": DAYS[r["weekday"] - 1],
            "hour": r["hour"],
            "level": level(r["slow"], r["requests"]),
            "window": any(_inside(w, r["weekday"], r["hour"]) for w in windows),
        }
        for r in found
    ]
    n, slow = sum(r["requests"] for r in found), sum(r["slow"] for r in found)
    hours: dict[int, list[int]] = {}
    for r in found:
        one = hours.setdefault(r["hour"], [0, 0])
        one[0] += r["requests"]
        one[1] += r["slow"]
    worst = max(hours, key=lambda h: hours[h][1] / hours[h][0])
    says = (
        f"{percent(slow / n)} of requests are slow (beyond {ms(threshold_ms)}); at {worst:02d}:00 {zone} it is "
        f"{percent(hours[worst][1] / hours[worst][0])}, the most of any hour."
    )
    if windows:
        texts = sorted({f"{w['from']} to {w['to']} UTC" for w in windows})
        says += f" Copies are sent only {' and '.join(texts)} (outlined)."
    table = Table(
        ("weekday", f"hour ({zone})", "requests", "slow", "share slow", "days seen"),
        [
            (
                DAYS[r["weekday"] - 1],
                f"{r['hour']:02d}:00",
                count(r["requests"]),
                count(r["slow"]),
                percent(r["slow"] / r["requests"]),
                count(r["days"]),
            )
            for r in found
        ],
        left=2,
    )
    return Figure(key, title, says, n, rows=rows, table=table, facts={"zone": zone, "days": list(DAYS)})


def _inside(window: Mapping[str, Any], weekday: int, hour: int) -> bool:
    begin, end = (int(str(window[k]).split(":")[0]) for k in ("from", "to"))
    end = end if str(window["to"]).endswith(":00") else end + 1
    if begin < end:
        return weekday in window["days"] and begin <= hour < end
    before = 7 if weekday == 1 else weekday - 1
    return (weekday in window["days"] and hour >= begin) or (before in window["days"] and hour < end)


def kinds(diagnosis: Mapping[str, Any]) -> Figure:
    """Which kinds of requests the tail has more of than the rest."""
    key, title = "kinds", "What the slow requests have more of"
    found = diagnosis.get("differs_by") or []
    tail = diagnosis["tail"]["n"]
    if not found:
        text = (
            "Slow requests do not differ from the rest by anything this log names. Log model, route, segment, pool, "
            "streamed, tools offered and prompt tokens to compare them."
        )
        return lacking(key, title, text)
    rows = [
        {
            "name": f"{d['field']} = {d['value']}",
            "place": i,
            "tail": d["share_in_tail"],
            "overall": d["share_overall"],
        }
        for i, d in enumerate(found)
    ]
    top = found[0]
    says = (
        f"{top['field']} = {top['value']} makes up {percent(top['share_in_tail'])} of the {count(tail)} slow requests and "
        f"{percent(top['share_overall'])} of all: {top['lift']:.2f} times its share."
    )
    if all(0.8 <= d["lift"] <= 1.25 for d in found):
        says += " No kind stands out: nothing here is more than a quarter off its share."
    table = Table(
        ("field", "value", "share of slow requests", "share of all", "ratio"),
        [
            (d["field"], str(d["value"]), percent(d["share_in_tail"]), percent(d["share_overall"]), f"{d['lift']:.2f}")
            for d in found
        ],
        left=2,
    )
    return Figure(key, title, says, tail, "slow requests", rows, {}, table)


def quality(con: duckdb.DuckDBPyConnection, checked: Mapping[str, Any]) -> list[Figure]:
    """What share of requests has each field, and which data checks found rows that break them."""
    found = [r for r in decompose.rows(con, "report/observed") if r["requests"]]
    rows = [{"field": r["field"], "place": i, "share": r["observed"] / r["requests"]} for i, r in enumerate(found)]
    absent = [r["field"] for r in found if not r["observed"]]
    partly = [r["field"] for r in found if 0 < r["observed"] < r["requests"]]
    says = f"Not observed in any request: {', '.join(absent)}." if absent else "Every field is observed."
    if partly:
        says += f" In some requests only: {', '.join(partly)}."
    table = Table(
        ("field", "observed in", "of", "share"),
        [
            (r["field"], count(r["observed"]), count(r["requests"]), percent(r["observed"] / r["requests"]))
            for r in found
        ],
    )
    n = max((r["requests"] for r in found), default=0)
    seen = Figure("observed", "What the log observes", says, n, rows=rows, table=table)
    broken = [r for r in checked["rules"] if r["offenders"]]
    says = (
        "; ".join(f"{r['rule'].replace('_', ' ')}: {count(r['offenders'])} rows" for r in broken) + "."
        if broken
        else f"All {len(checked['rules'])} data checks pass."
    )
    table = Table(
        ("check", "question", "rows that break it"),
        [(r["rule"].replace("_", " "), r["question"], count(r["offenders"])) for r in checked["rules"]],
        left=2,
    )
    return [seen, Figure("checks", "Data checks", says, n, table=table)]


def _clock(ns: int) -> str:
    """RFC 3339."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _stamp(ns: int) -> str:
    return _clock(ns).replace("T", " ").replace("Z", "")


def _length(ns: int) -> str:
    seconds = ns // 1_000_000_000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} days"
