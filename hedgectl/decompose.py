"""Turns attempts into logical requests and divides their time: runs queries/decompose in an open database.

`prepare` leaves TEMP tables `selected_attempt`, `request`, `component` and `output_length` in the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hedgectl import join, prefill, sql
from hedgectl.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    Connection = duckdb.DuckDBPyConnection

MIN_REQUESTS = 1000  # below this no verdict is given
SLACK_NS = 3_600_000_000_000  # attempts this far outside the window may still belong to a request inside
MIN_SCALE_ROWS = 100
MAX_SCALE_ERROR = 0.15
MAX_SKEW_SHARE = 0.001  # of logged first tokens; up to here a clock was set, beyond there are two


@dataclass(frozen=True, slots=True)
class Selection:
    """What part of the log is looked at. Times are UTC nanoseconds since the epoch.

    `since_ns` is included, `until_ns` excluded; `window_ns` reaches back from `as_of_ns` (default: the newest attempt).
    `where` is one boolean SQL expression over the columns of `attempt`, asked of a request's first attempt, so that
    no request is cut apart. `assume_uncached`: the operator says that the engines keep no prefix cache.
    """

    since_ns: int | None = None
    until_ns: int | None = None
    window_ns: int | None = None
    as_of_ns: int | None = None
    where: str | None = None
    model: str | None = None
    route: str | None = None
    tz: str | None = None
    min_requests: int = MIN_REQUESTS
    assume_uncached: bool = False


@dataclass(frozen=True, slots=True)
class Skew:
    """First tokens before the start: two clocks, whose offset nothing in the log verifies.

    `share`: of the attempts; `behind`: replica -> the least that its clock is behind, ns, worst first; `telling`: so many
    that every other first token of the log is doubtful too, and not a clock that was set once.
    """

    share: float
    behind: Mapping[str | None, int]
    telling: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was selected and how far its numbers can be trusted.

    `window` and `notes` are the shared pieces of the documents; `facts` are the counts of queries/decompose/facts;
    `prefill_fits` has one fit a model; `bytes_per_token` is set where stream bytes stand in for output length.
    """

    selection: Selection
    as_of_ns: int | None
    window: dict[str, Any]
    requests: int
    attempts: int
    facts: Mapping[str, Any]
    notes: tuple[dict[str, Any], ...]
    prefill_fits: Mapping[str, prefill.PrefillFit] = field(default_factory=dict)
    bytes_per_token: float | None = None
    skew: Skew | None = None

    @property
    def as_of(self) -> str | None:
        return rfc3339(self.as_of_ns)


def rfc3339(ns: int | None) -> str | None:
    """UTC with as many digits as needed: 2026-11-29T04:15:00Z, 2026-11-29T04:15:00.250Z."""
    if ns is None:
        return None
    seconds, rest = divmod(int(ns), 1_000_000_000)
    base = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return base + (f".{rest:09d}".rstrip("0") if rest else "") + "Z"


def note(code: str, text: str, *, level: str = "info", share: float | None = None) -> dict[str, Any]:
    """The shared note piece: `code` is stable, `text` is for people."""
    return {"code": code, "level": level, "share": None if share is None else round(share, 6), "text": text}


def run(con: Connection, name: str, **values: Any) -> None:
    """Runs queries/<name>.sql with bound values, for its effect."""
    con.execute(sql.text(name), values or None).fetchall()


def row(con: Connection, name: str, **values: Any) -> dict[str, Any]:
    """The one row that queries/<name>.sql returns, by column name."""
    found = con.execute(sql.text(name), values or None)
    columns = [d[0] for d in found.description or []]
    rows = found.fetchall()
    return dict(zip(columns, rows[0], strict=True)) if rows else dict.fromkeys(columns)


def rows(con: Connection, name: str, **values: Any) -> list[dict[str, Any]]:
    """All rows of queries/<name>.sql as dicts."""
    found = con.execute(sql.text(name), values or None)
    columns = [d[0] for d in found.description or []]
    return [dict(zip(columns, r, strict=True)) for r in found.fetchall()]


def columns(con: Connection, name: str, **values: Any) -> dict[str, Any]:
    """All rows of queries/<name>.sql as numpy arrays by column; masked where NULL."""
    found: dict[str, Any] = con.execute(sql.text(name), values or None).fetchnumpy()
    return found


def prepare(con: Connection, selection: Selection | None = None) -> Prepared:
    """Builds the TEMP tables for a selection of the log.

    Raises UsageError for a bad --where. An empty selection is no error: it has 0 requests and a note.
    """
    chosen = selection or Selection()
    join.observe(con)
    span = row(con, "decompose/span")
    as_of_ns = chosen.as_of_ns if chosen.as_of_ns is not None else span["newest_ns"]
    from_ns, to_ns = limits(chosen, as_of_ns)
    run(con, "decompose/fold")
    run(
        con,
        "decompose/link",
        from_ns=None if from_ns is None else from_ns - SLACK_NS,
        to_ns=None if to_ns is None else to_ns + SLACK_NS,
    )
    if chosen.where is not None:
        _filter(con, chosen.where)
    else:
        run(con, "decompose/where_none")
    run(
        con,
        "decompose/selected_key",
        from_ns=from_ns,
        to_ns=to_ns,
        model=chosen.model,
        route=chosen.route,
        filtered=chosen.where is not None,
    )
    run(con, "decompose/selected_attempt")
    run(con, "decompose/request")
    outlived = _settle_timeouts(con)
    fits = _fit_prefill(con, assume_uncached=chosen.assume_uncached)
    run(con, "decompose/component")
    scale, scale_notes = _output_length(con)
    facts = row(con, "decompose/facts")
    window = {
        "from": rfc3339(from_ns if from_ns is not None else facts["first_ns"]),
        "to": rfc3339(to_ns if to_ns is not None else facts["last_ns"]),
        "requests": facts["requests"],
        "attempts": facts["attempts"],
    }
    skew = _skew(con, facts)
    notes = [
        *_notes(facts, span, fits),
        *_skewed(skew),
        *outlived,
        *scale_notes,
        *_turns(con),
        *_folded(con),
        *_copies_limited(con),
        *join.notes(join.counts(con)),
    ]
    return Prepared(
        chosen, as_of_ns, window, facts["requests"], facts["attempts"], facts, tuple(notes), fits, scale, skew
    )


def _skew(con: Connection, facts: Mapping[str, Any]) -> Skew | None:
    if not facts["clock_skew"]:
        return None
    found = rows(con, "decompose/skew")
    telling = facts["clock_skew"] > MAX_SKEW_SHARE * facts["ttft_logged"]
    share = facts["clock_skew"] / max(facts["attempts"], 1)
    return Skew(share, {one["replica"]: int(one["behind_ns"]) for one in found}, telling)


def _skewed(skew: Skew | None) -> list[dict[str, Any]]:
    if skew is None:
        return []
    listed = [f"{name or 'a replica without a name'} at least {ns / 1e6:.0f} ms" for name, ns in skew.behind.items()]
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    elsewhere = ", and cross-clock with an offset that is not verified everywhere else" if skew.telling else ""
    text = (
        f"{skew.share:.1%} of rows have a first token before the start, so it is timed by another clock (behind: "
        f"{', '.join(listed[:3])}{more}): their TTFT is unknown{elsewhere}"
    )
    return [note("clock_skew", text, level="warning", share=skew.share)]


def _settle_timeouts(con: Connection) -> list[dict[str, Any]]:
    """Timeouts that answers outlive become errors in `request`, for every command alike; a note a model with such ones."""
    run(con, "decompose/outlived")
    found = rows(con, "decompose/outlived_count")
    if found:
        run(con, "decompose/outlived_are_errors")
    return [
        note(
            "timeouts_outlived",
            f"{one['timeouts']} timeouts{' of ' + one['model'] if one['model'] else ''} (after {one['given_ns'] / 1e9:.3g} s) count as "
            f"errors: {one['longer']} answers took longer than these were given, so they say nothing about how long an answer takes",
            share=one["timeouts"] / one["requests"],
        )
        for one in found
    ]


def _copies_limited(con: Connection) -> list[dict[str, Any]]:
    """A warning if copies were refused by a rate limit: a copy that gets a 429 never wins, and may cost others their place."""
    copies = int(row(con, "decompose/copies_limited")["copies"])
    if not copies:
        return []
    calls = len(con.execute(sql.text("check/quota_after_copy")).fetchall())
    text = f"hedging may be eating the quota: a rate limit (429) refused {copies} copies, and {calls} ordinary calls within a minute after one"
    return [note("quota_after_copy", text, level="warning", share=None)]


def _folded(con: Connection) -> list[dict[str, Any]]:
    """A note if calls were traced twice."""
    found = row(con, "decompose/folded_count")["spans"]
    if not found:
        return []
    return [
        note(
            "folded_spans",
            f"{found} spans tell of calls that another span inside or around them tells of too: each call counts once",
        )
    ]


def _turns(con: Connection) -> list[dict[str, Any]]:
    """Divides agent turns between models and tools; one note, if there are any."""
    run(con, "decompose/turn")
    seen = row(con, "decompose/turn_facts")
    if not seen["turns"] or not seen["wall_ns"]:
        return []
    share = int(seen["tool_wait_ns"]) / int(seen["wall_ns"])
    text = (
        f"{seen['turns']} agent turns: {int(seen['model_ns']) / int(seen['wall_ns']):.0%} of their time in model calls, {share:.0%} waiting "
        f"for tools (no copy shortens that: at most {int(seen['model_ns']) / 1e9:.3g} s can be saved), {int(seen['other_ns']) / int(seen['wall_ns']):.0%} in neither; hedgectl sql turns lists them"
    )
    return [note("agent_turns", text, share=share)]


def limits(chosen: Selection, as_of_ns: int | None) -> tuple[int | None, int | None]:
    """(first, last) arrival that counts, both included."""
    starts = [] if chosen.since_ns is None else [chosen.since_ns]
    ends = [] if chosen.until_ns is None else [chosen.until_ns - 1]
    if chosen.window_ns is not None and as_of_ns is not None:
        starts.append(as_of_ns - chosen.window_ns)
        ends.append(as_of_ns)
    elif chosen.as_of_ns is not None:
        ends.append(chosen.as_of_ns)
    return (max(starts) if starts else None), (min(ends) if ends else None)


def _filter(con: Connection, where: str) -> None:
    """Keeps the requests whose first attempt passes `where`, as TEMP TABLE where_key.

    The text never becomes part of a statement: the database parses it as one expression, and nested queries
    (which could read files) are refused.
    """
    hint = "--where takes one true-or-false SQL expression over the columns of attempt, e.g. \"segment = 'pro'\""
    parsed = json.loads(con.execute(sql.text("decompose/parse"), {"text": f"SELECT (\n{where}\n)"}).fetchall()[0][0])
    if parsed.get("error"):
        raise UsageError(f"--where is not an SQL expression: {parsed.get('error_message')}", where=where, hint=hint)
    statements = parsed.get("statements", [])
    node = statements[0].get("node", {}) if len(statements) == 1 else {}
    if node.get("type") != "SELECT_NODE" or len(node.get("select_list", [])) != 1 or node.get("modifiers"):
        raise UsageError("--where must be one expression", where=where, hint=hint)
    if node.get("from_table", {}).get("type") != "EMPTY" or any(
        node.get(k) for k in ("where_clause", "group_expressions", "having", "qualify", "sample")
    ):
        raise UsageError("--where must be one expression, without FROM or WHERE", where=where, hint=hint)
    refused = {"SUBQUERY": "a nested query", "PARAMETER": "a parameter", "WINDOW": "a window function"}
    for kind, meaning in refused.items():
        if _contains(node["select_list"][0], kind):
            raise UsageError(f"--where may not hold {meaning}", where=where, hint=hint)
    run(con, "decompose/first_attempt")
    try:
        first = con.table("first_attempt")
        types = [str(t) for t in first.project(where).types]
        if types != ["BOOLEAN"]:
            raise UsageError(f"--where gives {' and '.join(types)}, not true or false", where=where, hint=hint)
        passed = first.filter(where).query("passed", sql.text("decompose/where_key"))
        if passed is not None:
            passed.fetchall()
    except UsageError:
        raise
    except Exception as error:  # any complaint of the database about the user's expression
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"--where cannot be used: {message}", where=where, hint=hint) from error


def _contains(tree: Any, kind: str) -> bool:
    if isinstance(tree, dict):
        return tree.get("class") == kind or any(_contains(v, kind) for v in tree.values())
    if isinstance(tree, list):
        return any(_contains(v, kind) for v in tree)
    return False


def _fit_prefill(con: Connection, *, assume_uncached: bool) -> dict[str, prefill.PrefillFit]:
    """One fit a model; only good ones enter prefill_law."""
    import numpy as np

    run(con, "decompose/prefill_law")
    found = columns(con, "decompose/idle_arrival", assume_uncached=assume_uncached)
    fits: dict[str, prefill.PrefillFit] = {}
    if not len(found["model"]):
        return fits
    models, code = np.unique(np.asarray(found["model"], dtype=object).astype(str), return_inverse=True)
    tokens, ttft = np.asarray(found["uncached_tokens"]), np.asarray(found["ttft_ns"])
    for k, model in enumerate(models):
        mine = code == k
        fits[str(model)] = fitted = prefill.fit(tokens[mine], ttft[mine])
        if fitted.good:
            run(
                con,
                "decompose/prefill_law_add",
                model=str(model),
                base_ns=fitted.base_ns,
                per_token_ns=fitted.per_token_ns,
                assume_uncached=assume_uncached,
            )
    return fits


def _output_length(con: Connection) -> tuple[float | None, list[dict[str, Any]]]:
    """Decides whether stream bytes may stand in for token counts: (bytes per token or None, notes)."""
    seen = row(con, "decompose/byte_scale")
    scale: float | None = None
    notes: list[dict[str, Any]] = []
    if seen["bytes_only_rows"]:
        if seen["token_rows"] == 0:
            scale = 1.0
            notes.append(
                note("output_length_in_bytes", "no token counts: answers are compared by the bytes of their streams")
            )
        elif seen["both_rows"] >= MIN_SCALE_ROWS and seen["median_error"] <= MAX_SCALE_ERROR:
            scale = float(seen["bytes_per_token"])
            text = f"{seen['bytes_only_rows']} answers have no token count: estimated at {scale:.3g} bytes a token"
            notes.append(note("output_length_from_bytes", text))
        else:
            why = (
                f"the scale is off by {seen['median_error']:.0%} where both are known"
                if seen["both_rows"] >= MIN_SCALE_ROWS
                else f"only {seen['both_rows']} answers have both"
            )
            notes.append(
                note("bytes_not_used", f"stream bytes do not stand in for output length: {why}", level="warning")
            )
    run(con, "decompose/output_length", bytes_per_token=scale)
    return scale, notes


def _notes(
    facts: Mapping[str, Any], span: Mapping[str, Any], fits: Mapping[str, prefill.PrefillFit]
) -> list[dict[str, Any]]:
    notes: list[dict[str, Any]] = []
    n, logged = facts["requests"], max(facts["ttft_logged"], 1)

    def add(code: str, level: str, count: int, of: int, text: Callable[[str], str]) -> None:
        if count:
            share = count / max(of, 1)
            notes.append(note(code, text(f"{share:.0%}" if share >= 0.005 else str(count)), level=level, share=share))

    if n == 0:
        notes.append(note("no_requests", "no request lies in this selection", level="warning"))
    outside = facts["requests_read"] - n
    add("outside_selection", "info", outside, facts["requests_read"], lambda s: f"{outside} requests lie outside")
    add(
        "ttft_equals_e2e",
        "warning",
        facts["ttft_equals_e2e"],
        logged,
        lambda s: f"{s} of rows log the first token at the end: their TTFT is unknown",
    )
    add(
        "ttft_is_zero",
        "warning",
        facts["ttft_is_zero"],
        logged,
        lambda s: f"{s} of rows log the first token at the start: their TTFT is unknown",
    )
    add(
        "ttft_after_end",
        "warning",
        facts["ttft_after_end"],
        logged,
        lambda s: f"{s} of rows log the first token after the end: their TTFT is unknown",
    )
    add(
        "not_streamed",
        "info",
        facts["not_streamed"],
        logged,
        lambda s: f"{s} of logged TTFTs belong to whole answers, which have no first token on the wire",
    )
    streamed, missing = facts["streamed"], facts["streamed_without_ttft"]
    add(
        "ttft_unknown",
        "warning",
        missing,
        streamed,
        lambda s: f"the first token is known for {streamed - missing} of {streamed} streamed answers",
    )
    add(
        "bad_parts",
        "warning",
        facts["bad_parts"],
        facts["attempts"],
        lambda s: f"{s} of rows have a negative or too long part: not used (hedgectl check lists them)",
    )
    add(
        "negative_other",
        "warning",
        facts["negative_other"],
        n,
        lambda s: f"{s} of rows have parts that add up to more than e2e: `other` is negative there",
    )
    add(
        "request_id_reused",
        "info",
        facts["reused_ids"],
        n,
        lambda s: f"{s} of requests carry the id of an earlier, answered request: counted as requests of their own",
    )
    add("ok_without_e2e", "warning", facts["ok_without_e2e"], n, lambda s: f"{s} of answers have no e2e time")
    add("without_time", "warning", facts["without_time"], n, lambda s: f"{s} of requests have no arrival time")
    add(
        "sampled",
        "warning",
        facts["weighted"],
        n,
        lambda s: "the log is sampled: rows are weighted, and the load it shows is too low",
    )
    if facts["observers"] and facts["observers"] > 1:
        notes.append(note("several_observers", "times of several observers are mixed: compare them by --by observer"))
    if not fits and facts["ttft_with_prompt"] and not facts["queue_logged"] and not facts["cached_logged"]:
        text = (
            "TTFT is not divided into queue and prefill: the log has no cached tokens. If the engines keep no prefix "
        )
        notes.append(note("cached_tokens_unknown", text + "cache, say so: prefix_cache = false under [engine]"))
    for model, fitted in fits.items():
        of = f" of {model}" if model else ""
        if fitted.good:
            notes.append(
                note(
                    "prefill_fitted",
                    f"prefill{of} fitted on {fitted.arrivals} idle arrivals: {fitted.base_ns / 1e6:.1f} ms + "
                    f"{fitted.per_token_ns / 1e3:.2f} us a token (error {fitted.error:.1%}); queue is the rest of TTFT",
                )
            )
        elif fitted.refused != "too_few_idle_arrivals":
            notes.append(
                note("prefill_not_fitted", f"TTFT{of} is not divided into queue and prefill: {fitted.refused}")
            )
    return notes
