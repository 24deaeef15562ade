"""What ingest says about its work: the document ingest.v1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hedgectl import join, sql
from hedgectl.errors import HedgectlError, InputError, NoRequests
from hedgectl.formats.catalogue import note_texts

if TYPE_CHECKING:
    from hedgectl.formats.unread import FieldReport
    from hedgectl.ingest.counts import Counts
    from hedgectl.store import Store

SHOWN_REJECTS = 20
"""Rejects of a file that stand in the document; all of them stand in the table ``reject``."""

_SHOWN_NAMES = 8

_TEXTS = {
    "bad_utf8": "bytes that are not UTF-8, shown as \\xNN: {n}",
    "cut_file": "longer than 128 MB, read in pieces where requests take several lines: one under way at such a place is told in part: {n}",
    "field_twice": "a field stands twice in one record, the first one counts: {n} seen",
    "id_reused": "attempt ids that stand for more than one content, all rows kept: {n}",
    "naive_time": "times without a zone, read in {tz} (set --tz to change): {n}",
    "ttft_equals_e2e": "first token logged at the end, so TTFT is unknown: {n}",
    "ttft_zero": "first token logged at the start, so TTFT is unknown: {n}",
    "ttft_beyond_e2e": "first token logged after the end, so TTFT is unknown: {n}",
    "ttft_unreadable": "TTFT is no duration, so it is unknown: {n}",
    "clock_skew": "first token logged before the start, so TTFT is unknown: {n}",
    "cross_clock": "first token timed on another clock, so TTFT is unknown: {n}",
    "component_out_of_range": "a part that is negative or longer than the whole, so it is unknown: {n}",
}
"""Note codes in words; a code that is not here is shown as it is."""

_COUNTED = {"bad_utf8": "line", "cut_file": "file"}

_INFO = ("naive_time", "cross_clock")

_SELDOM = ("error", "hedge_delay", "hedge_role", "hedge_won", "hedged", "loser_replica", "tool_wait", "tools")
"""Fields that a writer leaves out of most records: the first ones need not have them."""

_PARTS = (
    "event",
    "request_line",
    "request_received",
    "slot_line",
    "stream_part",
    "tool_start",
    "ttft_line",
    "prefill_leg",
    "other_component",
)
"""Reasons of records that belong to a request told by another record: a request of a dozen lines is no sign of a wrong log."""


@dataclass(slots=True)
class File:
    """What happened to one file in this run."""

    path: str
    format: str | None = None
    why: str = ""
    already: bool = False  # nothing new since it was read before
    file_id: int | None = None  # in the ledger, where it is known from before
    same_as: File | None = None  # the file of this run that it is a copy of
    resumed: bool = False  # it has grown since it was read before
    failure: HedgectlError | None = None
    lines: int = 0
    accepted: int = 0
    duplicates: int = 0
    not_requests: int = 0
    rejected: int = 0
    bytes: int = 0
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of rejects
    others: Counter[str] = field(default_factory=Counter)  # of what is no request
    fields: FieldReport | None = None  # which fields the format does not read

    def add(self, count: Counts, duplicates: int) -> None:
        """Adds what one batch found; duplicates are no longer in ``count.accepted``."""
        self.lines += count.lines + duplicates
        self.accepted += count.accepted
        self.duplicates += duplicates
        self.not_requests += sum(count.not_requests.values())
        self.rejected += count.rejected
        self.reasons.update(reason for _, reason, _ in count.rejects)
        self.others.update(count.not_requests)
        self.rejects = sorted([*self.rejects, *count.rejects])[:SHOWN_REJECTS]

    def repeat(self, other: File) -> None:
        """Counts a copy of ``other`` of the same run: what was accepted there is a duplicate here."""
        self.lines, self.duplicates = other.lines, other.accepted + other.duplicates
        self.not_requests, self.rejected = other.not_requests, other.rejected

    def check(self) -> None:
        """Raises AssertionError if a record was lost or counted twice."""
        parts = self.accepted + self.duplicates + self.not_requests + self.rejected
        if self.lines != parts or min(self.accepted, self.duplicates, self.not_requests, self.rejected) < 0:
            raise AssertionError(f"{self.path}: {self.lines} lines are not {parts} counted records")


@dataclass(frozen=True, slots=True)
class Held:
    """What is held after a run, by whatever name: ``window`` has from and to in ns (UTC), attempts and requests."""

    name: str
    window: dict[str, Any]
    observers: list[str]
    coverage: dict[str, float | None]
    joined: list[dict[str, Any]] = field(default_factory=list)  # join.counts


def held(store: Store) -> Held:
    """What a database holds, each request once whoever saw it."""
    join.observe(store.con)
    observers = [row[0] for row in store.con.execute(sql.text("ingest/observers")).fetchall()]
    return Held(
        store.name,
        _row(store.con, "ingest/window"),
        observers,
        _row(store.con, "ingest/coverage"),
        join.counts(store.con),
    )


def build(held: Held, files: list[File], codes: Counter[str], *, tz: str | None) -> dict[str, Any]:
    """The document of a run; ``codes`` are the notes of formats with how often.

    Raises NoRequests (or the failure of the only file) if no file held a request.
    """
    document = _document(held, files, codes, tz=tz)
    if not any(f.accepted or f.duplicates or f.already or f.resumed for f in files):
        raise _nothing(files, document)
    return document


def _document(held: Held, files: list[File], codes: Counter[str], *, tz: str | None) -> dict[str, Any]:
    names = ("lines", "accepted", "duplicates", "not_requests", "rejected")
    totals = {name: sum(getattr(f, name) for f in files) for name in names}
    window = held.window
    return {
        "schema": "hedgectl/ingest.v1",
        "database": held.name,
        "files": [_file(f) for f in files],
        "totals": {**totals, "attempts": window["attempts"], "requests": window["requests"]},
        "observers": held.observers,
        "joined": held.joined,
        "coverage": held.coverage,
        "window": {**window, "from": rfc3339(window["from"]), "to": rfc3339(window["to"])},
        "notes": _notes(files, totals, codes, tz=tz, attempts=int(window["attempts"])) + join.notes(held.joined),
    }


def of_pruned(store: Store, files: list[File]) -> list[dict[str, Any]]:
    """A note on files that were read before and whose rows ``daily`` has removed since: reading them again brings nothing back."""
    ids = [f.file_id for f in files if f.already and f.file_id is not None]
    found = store.con.execute(sql.text("ingest/pruned"), {"ids": ids}).fetchall() if ids else []
    return [
        _note(
            "rows_pruned",
            "info",
            f"{n} of these files {'was' if n == 1 else 'were'} read before, and hedgectl daily has removed the raw rows since (days "
            f"before {raw_from}); the daily figures stay. For the rows themselves read the files into another database",
        )
        for raw_from, n in found
        if n
    ]


def too_many_rejects(files: list[File], limit: float) -> InputError:
    """What to say when more than the share ``limit`` of all records was rejected."""
    worst = max(files, key=lambda f: f.rejected)
    return InputError(
        f"{sum(f.rejected for f in files)} of {sum(f.lines for f in files)} records were rejected, "
        f"more than the limit of {limit:.3g}; nothing was written",
        where=f"{worst.path}: {', '.join(f'{n} {reason}' for reason, n in worst.reasons.most_common(3))}",
        hint="look at these lines, or raise --max-reject",
    )


def _nothing(files: list[File], document: dict[str, Any]) -> HedgectlError:
    failures = [f.failure for f in files if f.failure is not None]
    unusable = [f for f in failures if not isinstance(f, NoRequests)]
    if len(unusable) == len(files) and len({(type(f), f.what) for f in failures}) == 1:
        return failures[0]
    shown = ", ".join(f.path for f in files[:5]) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
    told = [
        (f.path, "no record in it" if f.failure is None else f.failure.what) for f in files if f.failure or not f.lines
    ]
    reasons = "; ".join(f"{path}: {what}" for path, what in told[:5])
    rejected: Counter[str] = Counter()
    for f in files:
        rejected.update(f.reasons)
        rejected.update(f.others)
    if rejected:
        reasons = "; ".join(filter(None, [reasons, _listed(rejected)]))
    failure = NoRequests("no requests found", where=shown, hint=f"{reasons}; check the path and the export")
    # a file that could not be read may have held some: nothing can be said of it
    failure.document = None if unusable else document
    return failure


def _row(con: Any, name: str) -> dict[str, Any]:
    result = con.execute(sql.text(name))
    columns = [c[0] for c in result.description]
    return dict(zip(columns, result.fetchall()[0], strict=True))


def rfc3339(ns: int | None) -> str | None:
    """RFC 3339 UTC with as many digits as the time has."""
    if ns is None:
        return None
    from datetime import UTC, datetime

    seconds, rest = divmod(ns, 1_000_000_000)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None
    return text + (f".{rest:09d}".rstrip("0") if rest else "") + "Z"


def _file(f: File) -> dict[str, Any]:
    return {
        "path": f.path,
        "format": f.format,
        "lines": f.lines,
        "accepted": f.accepted,
        "duplicates": f.duplicates,
        "not_requests": f.not_requests,
        "rejected": f.rejected,
        "already_ingested": f.already,
        "error": None if f.failure is None else f.failure.what,
        "rejects": [{"line": line, "reason": reason, "text": text} for line, reason, text in f.rejects],
    }


def _note(code: str, level: str, text: str, share: float | None = None) -> dict[str, Any]:
    return {"code": code, "level": level, "share": share, "text": text}


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _notes(
    files: list[File], totals: dict[str, int], codes: Counter[str], *, tz: str | None, attempts: int
) -> list[dict[str, Any]]:
    notes: list[dict[str, Any]] = []
    for f in files:
        if f.failure is not None:
            hint = f" ({f.failure.hint})" if f.failure.hint else ""
            notes.append(_note("file_unusable", "warning", f"{f.path}: {f.failure.what}{hint}"))
        elif f.same_as is not None:
            text = f"{f.path}: the same content as {f.same_as.path}, counted once"
            notes.append(_note("same_content", "warning", text))
        elif not (f.already or f.resumed or f.accepted or f.duplicates):
            notes.append(_note("file_without_requests", "warning", f"{f.path}: no requests found"))
    reasons: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for f in files:
        reasons.update(f.reasons)
        others.update(f.others)
    lines = max(1, totals["lines"])
    if reasons:
        notes.append(
            _note("rejected", "warning", f"rejected: {_listed(reasons)}", round(totals["rejected"] / lines, 4))
        )
    if others:
        notes.append(
            _note("not_requests", "info", f"no requests: {_listed(others)}", round(totals["not_requests"] / lines, 4))
        )
    used = totals["accepted"] + totals["duplicates"]
    whole = totals["lines"] - sum(others[reason] for reason in _PARTS)
    if totals["lines"] and used * 2 < whole:
        notes.append(
            _note(
                "mostly_not_requests",
                "warning",
                f"only {used} of {totals['lines']} records are requests: is this the right log, or the wrong format?",
                round(used / lines, 4),
            )
        )
    for code, n in sorted(codes.items()):
        if n:
            number = f"{n} {_COUNTED.get(code, 'row')}{'' if n == 1 else 's'}"
            text = (_TEXTS.get(code) or note_texts().get(code, code.replace("_", " ")) + ": {n}").format(
                n=number, tz=tz or "UTC"
            )
            notes.append(
                _note(code, "info" if code in _INFO else "warning", text, round(min(1.0, n / max(1, attempts)), 4))
            )
    return notes + _field_notes(files)


def _field_notes(files: list[File]) -> list[dict[str, Any]]:
    notes = []
    unknown: dict[str, dict[str, None]] = {}
    near: dict[str, dict[str, str]] = {}
    missed: dict[str, set[str]] = {}
    absent: dict[str, dict[tuple[str, str], None]] = {}  # in none of a format's files
    looked: Counter[str] = Counter()
    for f in files:
        if f.format is not None and f.fields is not None:
            unknown.setdefault(f.format, {}).update(dict.fromkeys(f.fields.unknown))
            near.setdefault(f.format, {}).update(f.fields.near)
            missed.setdefault(f.format, set()).update(f.fields.near.keys() - f.fields.beside)
            if f.fields.looked:
                looked[f.format] += f.fields.looked
                before = absent.get(f.format, dict.fromkeys(f.fields.absent))
                absent[f.format] = {one: None for one in before if one in f.fields.absent}
    for name, nowhere in absent.items():
        whole = all(f.lines <= f.fields.looked for f in files if f.format == name and f.fields is not None)
        where = "no record" if whole else f"none of the {looked[name]} records looked at"
        for ours, theirs in nowhere:
            level = "info" if ours in _SELDOM else "warning"
            notes.append(_note("absent_field", level, f"{ours}: {theirs} is in {where}"))
    for name, fields in unknown.items():
        for field_name, ours in near[name].items():
            if field_name in missed[name]:
                text = f"{field_name!r} is not read: it looks like {ours!r}; bind it with --map"
                notes.append(_note("near_field", "warning", text))
            else:
                text = f"{field_name!r} is not read: {ours!r} stands beside it"
                notes.append(_note("near_field", "info", text))
        if fields:
            more = f" and {len(fields) - _SHOWN_NAMES} more" if len(fields) > _SHOWN_NAMES else ""
            plural = "field" if len(fields) == 1 else "fields"
            shown = ", ".join(list(fields)[:_SHOWN_NAMES]) + more
            notes.append(_note("unknown_fields", "info", f"{name}: {len(fields)} unknown {plural}: {shown}"))
    return notes
