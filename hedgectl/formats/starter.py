"""Writes a mapping to start from for an unknown flat log: which field may be what, in which unit, and what is only a guess.

A unit is written only if the field's name states it, its values carry it, or it agrees with end minus start; else the line is commented
out with the question to answer. Values in comments come from the log, shortened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from hedgectl.errors import InputError
from hedgectl.formats.aggregates import refuse_aggregates
from hedgectl.formats.columns import suggest_unit
from hedgectl.formats.sample import Record, Sample, sample_of

_NAMES: dict[str, tuple[str, ...]] = {
    "ts": ("ts", "starttime", "start", "requesttime", "requeststart", "startedat", "timestamp", "time", "createdat", "clientstart",
           "requesttimestamp", "eventtime", "date", "datetime", "launchtime", "when", "datetimeutc", "begin", "began", "begunat", "startedon", "receivedat", "requestreceivedms", "starttimestamp", "startat"),
    "end": ("endtime", "end", "endedat", "finishedat", "clientend", "requestend", "completedat", "finishtime", "endtimestamp"),
    "first_token": ("firsttokentime", "completionstarttime", "firsttokenat", "servefirsttoken", "firsttoken", "serverfirsttoken"),
    "request_id": ("requestid", "reqid", "id", "traceid", "correlationid", "callid", "xrequestid", "uuid", "req", "rid"),
    "attempt": ("attempt", "attemptno", "attemptnumber", "try", "trynumber"),
    "attempt_id": ("attemptid", "spanid"),
    "hedge_role": ("hedgerole", "role", "attempttype"),
    "replica": ("replica", "replicaid", "upstream", "upstreamhost", "upstreamaddr", "backend", "pod", "podname", "host", "hostname",
                "server", "instance", "deployment", "modelid", "endpoint", "targetpod", "worker", "node", "node id", "apibase"),
    "pool": ("pool", "zone", "region", "cluster", "az"),
    "model": ("model", "modelname", "modelgroup", "requestmodel", "engine", "llm"),
    "route": ("route", "path", "endpointname", "operation", "feature", "useCase".lower(), "task", "calltype"),
    "segment": ("segment", "tier", "plan", "tenant", "team", "customer", "org", "class"),
    "provider": ("provider", "vendor", "llmprovider"),
    "status": ("status", "statuscode", "httpstatus", "responsecode", "responsestatus", "code", "outcome", "success", "http", "httpcode"),
    "error": ("error", "errormessage", "err", "exception"),
    "streamed": ("stream", "streamed", "streaming", "isstream", "isstreaming"),
    "e2e": ("e2e", "latency", "duration", "elapsed", "totaltime", "responsetime", "endtoend", "e2elatency", "totallatency",
            "requestduration", "durationtotal", "total", "latencytotal", "requestlatency", "took", "walltime"),
    "ttft": ("ttft", "timetofirsttoken", "firsttokenlatency", "ttfb", "firsttoken", "timetofirstbyte", "timetofirstchunk", "ttfc", "firstbyte", "firstchunk", "firsttok"),
    "queue": ("queue", "queuetime", "queuewait", "waittime", "timeinqueue", "queued"),
    "prefill": ("prefill", "prefilltime", "timeinprefill"),
    "decode": ("decode", "decodetime", "generationtime", "timeindecode"),
    "tool_wait": ("toolwait", "tooltime"),
    "prompt_tokens": ("prompttokens", "inputtokens", "tokensin", "promptlen", "inputlen", "numprompttokens", "tokensinput", "tokensprompt", "intok", "intokens", "prompttok"),
    "cached_tokens": ("cachedtokens", "cachereadinputtokens", "cachedinputtokens", "cachereadtokens"),
    "completion_tokens": ("completiontokens", "outputtokens", "tokensout", "outputlen", "generatedtokens", "generationtokens",
                          "numoutputtokens", "tokensoutput", "tokenscompletion", "outtok", "outtokens"),
    "reasoning_tokens": ("reasoningtokens", "thinkingtokens"),
    "request_bytes": ("requestbytes", "bytesin", "bytesreceived", "requestsize"),
    "response_bytes": ("responsebytes", "bytesout", "bytessent", "responsesize"),
    "cache_hit": ("cachehit", "cached", "fromcache", "responsecached"),
    "tools_offered": ("toolsoffered", "hastools", "withtools"),
    "tools": ("tools", "toolnames"),
    "sticky_session": ("stickysession", "sticky", "sessionbound", "affinity", "pinned"),
    "n_choices": ("n", "nchoices", "choices"),
    "turn_id": ("turnid", "sessionid", "conversationid", "traceid"),
    "cost": ("cost", "spend", "price", "responsecost", "totalcost", "costtotal"),
}  # fmt: skip
_DURATIONS = ("e2e", "ttft", "queue", "prefill", "decode", "tool_wait")
_UNIT_WORD = re.compile(
    r"(nanoseconds?|nanos?|microseconds?|micros?|milliseconds?|millis?|seconds?|secs?|msecs?|ns|us|ms|s)$"
)
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def write(sample: Sample | Sequence[str]) -> str:
    """The mapping as TOML text. Raises InputError if the sample has no records of named fields, or only aggregates."""
    if not isinstance(sample, Sample):
        sample = sample_of(sample)
    refuse_aggregates(sample)
    if not sample.records:
        raise InputError(
            "no records of named fields in this log",
            hint="a mapping reads JSON lines, a JSON array, CSV with a header, or Parquet; text logs need a format file",
        )
    flat = [dict(_flatten(r)) for r in sample.records]
    names = list(dict.fromkeys(name for r in flat for name in r))
    chosen = _choose(names, flat)
    lines = _lines(chosen, flat)
    used = set(chosen.values())
    rest = [_shown(n) for n in names if n not in used]
    head = [
        f"# A mapping to start from, guessed from {len(flat)} {'record' if len(flat) == 1 else 'records'}. Check every line, then use it with --map FILE.",
        "# A key on the left is ours, with the unit of your field as its suffix; the text on the right is the name in your log.",
    ]
    if rest:
        head.append(f"# Not used: {', '.join(rest[:24])}{' …' if len(rest) > 24 else ''}")
    keys = [
        'format = "own"  # a name for these logs',
        '# observer = "gateway"  # who took the times: client (if left out), edge, gateway or engine',
    ]
    return "\n".join([*head, "", *keys, "", "[fields]", *lines, ""])


def _flatten(value: Mapping[str, Any], above: str = "", depth: int = 0) -> Iterable[tuple[str, Any]]:
    for name, inner in value.items():
        path = f"{above}/{name.replace('~', '~0').replace('/', '~1')}"
        if isinstance(inner, Mapping) and depth < 2:
            yield from _flatten(inner, path, depth + 1)
        else:
            yield path, inner


def _shown(path: str) -> str:
    """The name as a mapping would write it: plain for a top-level key, a pointer for a nested one."""
    body = path[1:]
    return body.replace("~1", "/").replace("~0", "~") if "/" not in body else path


def _folded(path: str) -> tuple[str, str]:
    """The last part of a path in lower case without separators, with and without its unit word."""
    last = path.rsplit("/", 1)[1].replace("~1", "/").replace("~0", "~")
    plain = re.sub(r"[^a-z0-9]", "", last.lower())
    return plain, _UNIT_WORD.sub("", plain) if suggest_unit(last) else plain


def _choose(names: Sequence[str], flat: Sequence[Record]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for key, words in _NAMES.items():
        best: tuple[int, int, str] | None = None
        for path in names:
            if path in taken:
                continue
            plain, bare = _folded(path)
            if key == "cost":
                bare = re.sub(r"(usd|eur|gbp)$", "", plain)
            rank = next((i for i, w in enumerate(words) if w in (plain, bare)), None)
            if rank is None or not _plausible(key, path, flat):
                continue
            score = (rank, path.count("/"), path)
            if best is None or score < best:
                best = score
        if best is not None:
            chosen[key] = best[2]
            taken.add(best[2])
    if not {"ts", "end"} & chosen.keys():
        dated = [path for path in names if path not in taken and _is_dated(_values(path, flat))]
        if dated:  # whatever it is called: of several times of a record the first is its start
            first = min(
                dated, key=lambda path: median(at for v in _values(path, flat) if (at := _instant(v)) is not None)
            )
            chosen = {"ts": first} | chosen
    return chosen


def _is_dated(values: Sequence[Any]) -> bool:
    """Whether all values are texts of a day with a time. A bare number may be a count as well as an epoch."""
    return bool(values) and all(
        isinstance(v, str) and re.match(r"\s*\d{4}-\d\d-\d\d[T ]\d", v) and _instant(v) is not None for v in values
    )


def _values(path: str, flat: Sequence[Record]) -> list[Any]:
    return [r[path] for r in flat if r.get(path) not in (None, "", "-")]


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _plausible(key: str, path: str, flat: Sequence[Record]) -> bool:
    values = _values(path, flat)
    if not values:
        return key not in ("e2e", "ttft", "ts", "end")
    numbers = [n for v in values if (n := _number(v)) is not None]
    if key in ("ts", "end", "first_token"):
        return any(_instant(v) is not None for v in values)
    if key in (*_DURATIONS, "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"):
        return bool(numbers) or all(isinstance(v, str) and re.match(r"\s*\d", v) for v in values[:20])
    if key in ("replica", "model", "request_id", "route", "segment", "pool"):
        return not all(isinstance(v, Mapping | list) for v in values)
    return True


def _instant(value: Any) -> float | None:
    """Seconds since the epoch, or None; epoch units are told apart by size."""
    number = _number(value)
    if number is not None:
        for scale in (1.0, 1e3, 1e6, 1e9):
            if 946684800 <= number / scale < 7258118400:
                return number / scale
        return None
    try:
        return datetime.fromisoformat(str(value).strip().replace(",", ".").replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _lines(chosen: Mapping[str, str], flat: Sequence[Record]) -> list[str]:
    lines = []
    for key, path in chosen.items():
        quoted = json.dumps(_shown(path), ensure_ascii=False)
        example = _example(path, flat)
        if key in _DURATIONS:
            unit, why = _unit(key, path, chosen, flat)
            if unit is None:
                lines.append(f"# {key}_?? = {quoted}  # {why}; {example}")
            else:
                lines.append(f"{key}{'_' + unit if unit else ''} = {quoted}  # {why}; {example}")
        elif key == "cost":
            plain, _ = _folded(path)
            found = re.search(r"(usd|eur|gbp)$", plain)
            currency = found.group(1) if found else "usd"
            lines.append(
                f"cost_{currency} = {quoted}  # {'currency from the name' if found else 'is this US dollars?'}; {example}"
            )
        elif key == "ts" and _folded(path)[0] not in _NAMES["ts"]:
            lines.append(f"{key} = {quoted}  # a time by its values: is it the start of the request? {example}")
        else:
            lines.append(f"{key} = {quoted}  # {example}")
    if not {"ts", "end"} & chosen.keys():
        lines.append(
            '# ts = "..."  # no field looks like a time: name the start of the request; an epoch with its unit, as in ts_ms'
        )
    if not {"e2e", "ttft"} & chosen.keys() and not {"ts", "end"} <= chosen.keys():
        lines.append('# e2e_?? = "..."  # no field looks like a duration: name one, with its unit')
    return lines


def _example(path: str, flat: Sequence[Record]) -> str:
    values = _values(path, flat)
    if not values:
        return "always empty"
    text = json.dumps(values[0], ensure_ascii=True)
    return f"e.g. {text[:47]}..." if len(text) > 50 else f"e.g. {text}"


def _unit(key: str, path: str, chosen: Mapping[str, str], flat: Sequence[Record]) -> tuple[str | None, str]:
    """The unit suffix ('' = the values carry it, None = not known) and where it comes from."""
    values = _values(path, flat)
    last = path.rsplit("/", 1)[1]
    named = suggest_unit(last)
    texts = [v for v in values if isinstance(v, str) and _number(v) is None]
    if texts and named is None:
        bare = len(values) - len(texts)
        return (
            "",
            f"{bare} of {len(values)} values have no unit and will be rejected"
            if bare
            else "the values carry their unit",
        )
    measured = _against_clock(path, chosen, flat) if key == "e2e" else None
    if named is not None and measured is not None and measured != named:
        return None, f"the name says {named}, end minus start says {measured}"
    if named is not None:
        return named, "unit from the name"
    if measured is not None:
        return measured, "unit from end minus start"
    beside = _beside(key, chosen, flat)
    if beside is not None:
        return None, f"unit not stated; the e2e field is in {beside}, is this too?"
    shown = _number(values[0]) if values else None
    return None, f"unit not known: is {shown:g} milliseconds or seconds?" if shown is not None else "unit not known"


def _beside(key: str, chosen: Mapping[str, str], flat: Sequence[Record]) -> str | None:
    if key == "e2e" or "e2e" not in chosen:
        return None
    return suggest_unit(chosen["e2e"].rsplit("/", 1)[1]) or _against_clock(chosen["e2e"], chosen, flat)


def _against_clock(path: str, chosen: Mapping[str, str], flat: Sequence[Record]) -> str | None:
    """The unit in which the field equals end minus start (median within 5 %), or None."""
    if not {"ts", "end"} <= chosen.keys():
        return None
    ratios = []
    for record in flat:
        value, start, end = (
            _number(record.get(path)),
            _instant(record.get(chosen["ts"])),
            _instant(record.get(chosen["end"])),
        )
        if value and start is not None and end is not None and end > start:
            ratios.append((end - start) / value)
    if not ratios:
        return None
    middle = median(ratios)
    return next((u for u, s in _SECONDS.items() if abs(middle / s - 1) < 0.05), None)
