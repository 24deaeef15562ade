"""Turns attempts into logical requests and divides their time: runs queries/decompose in an open database.

`prepare` leaves TEMP tables `selected_attempt`, `request`, `component` and `output_length` in the connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hedgectl import join, prefill, sql
from hedgectl.errors import UsageError
from hedgectl.notes import note as note
from hedgectl.notes import of_facts, of_skew

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    from numpy.typing import NDArray

    Connection = duckdb.DuckDBPyConnection

MIN_REQUESTS = 1000  # below this no verdict is given
SLACK_NS = 3_600_000_000_000  # attempts this far outside the window may still belong to a request inside
MIN_SCALE_ROWS = 100
MAX_SCALE_ERROR = 0.15
MAX_SKEW_SHARE = 0.001  # of logged first tokens; up to here a clock was set, beyond there are two
FASTEST_TOKENS_PER_S = 10_000  # of one answer (check/faster_than_engines too); the fastest hardware gives a third of it


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


def floats(found: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """The columns as float64, NaN for what is masked: times in ns stay exact up to 2**53, 104 days.

    Empties `found` a column at a time: of a million rows both together are a third of a gigabyte.
    """
    import numpy as np

    return {
        name: np.asarray(np.ma.filled(np.ma.asarray(found.pop(name)).astype(np.float64, copy=False), np.nan))
        for name in list(found)
    }


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
        *of_facts(facts, fits),
        *([] if skew is None else of_skew(skew.share, skew.behind, skew.telling)),
        *outlived,
        *scale_notes,
        *_turns(con),
        *_folded(con),
        *_copies_limited(con),
        *_too_fast(con),
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


def _too_fast(con: Connection) -> list[dict[str, Any]]:
    """A warning if the usual answer is written faster than engines can: every delay of a policy would be in the wrong unit too."""
    speed = row(con, "decompose/speed")["tokens_per_s"]
    if speed is None or speed <= FASTEST_TOKENS_PER_S:
        return []
    text = (
        f"half of the answers get more than {speed:,.0f} tokens a second, which no engine does: are the durations in the unit that their "
        "field names (--unit, or a mapping with e2e_s), or do they come from a response cache (log cache_hit)?"
    )
    return [note("unit_doubtful", text, level="warning", share=None)]


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
