"""The whole recommendation: one decision a scope of the prepared log, worst first, as a policy document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import hedgectl
from hedgectl import decompose
from hedgectl.decompose import Prepared
from hedgectl.errors import InputError
from hedgectl.model import ERROR, Workload
from hedgectl.policy import PolicyDocument, Scope, ScopePolicy
from hedgectl.recommend import scopes, sizes
from hedgectl.recommend.decide import Decided, decide, too_few, too_little
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options

if TYPE_CHECKING:
    import duckdb

LONG_LOG = 200_000  # requests
_EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, eq=False)
class Recommended:
    """The ``policy.v1`` document, and the slowest scope in which a policy was tried, with what that rests on."""

    document: dict[str, Any]
    slowest: Decided | None


@dataclass(frozen=True, slots=True, eq=False)
class OfScope:
    """What one scope adds to the document. ``slowest`` has its requests; the decisions in ``decided`` have not."""

    decided: tuple[Decided, ...]
    notes: tuple[dict[str, Any], ...]
    seen: Coverage
    slowest: Decided | None = None


def recommend(
    con: duckdb.DuckDBPyConnection,
    prepared: Prepared,
    options: Options | None = None,
    diagnosis: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of `recommended` alone."""
    return recommended(con, prepared, options, diagnosis).document


def recommended(
    con: duckdb.DuckDBPyConnection,
    prepared: Prepared,
    options: Options | None = None,
    diagnosis: dict[str, Any] | None = None,
) -> Recommended:
    """The decision for a log after `decompose.prepare`; one entry a scope, the slowest first.

    `diagnosis`: of `prepared` with the same seed, where it was made already. The same log, options and seed give the
    same bytes. Raises InputError if the selection holds no request.
    """
    chosen = options or Options()
    return composed(_every(con, prepared, chosen, diagnosis), prepared, chosen)


def _every(
    con: duckdb.DuckDBPyConnection, prepared: Prepared, chosen: Options, diagnosis: dict[str, Any] | None
) -> Iterator[OfScope]:
    """The scopes of the TEMP table `request`, largest first.

    With several scopes the TEMP tables are built anew for each that has requests enough, and for the whole selection
    again at the end.
    """
    found = scopes.listed(con, chosen)
    large, small = [one for one in found if one.enough], of_small(con, prepared, chosen)
    for k, one in enumerate(large, 1):
        told = chosen if len(large) == 1 else _telling(chosen, f"scope {k} of {len(large)}: ")
        yield decide_scope(con, scopes.scope_data(con, prepared, one, told, diagnosis), told)
    if large and len(found) > 1:
        decompose.prepare(con, prepared.selection)
    yield from small


def _telling(chosen: Options, place: str) -> Options:
    """The same options; every stage is told with its place."""
    if chosen.progress is None:
        return chosen
    say = chosen.progress
    return replace(chosen, progress=lambda stage, share: say(place + stage, share))


def of_small(con: duckdb.DuckDBPyConnection, prepared: Prepared, chosen: Options) -> list[OfScope]:
    """The scopes without requests enough: one query tells all of them, and nothing is loaded or estimated."""
    found = []
    for one in scopes.small(con, prepared, chosen):
        n = one.counts
        seen = Coverage()
        seen.count(n["requests"], n)
        notes = _source_notes(n["raced"], n["cache_hits"], one.closed_loop)
        refusal = Decided(too_few(n["answered"], one.scope, chosen), (), "matched")
        found.append(OfScope((refusal,), (*_one_size(chosen), *notes), seen))
    return found


def decide_scope(con: duckdb.DuckDBPyConnection, one: scopes.ScopeData, chosen: Options) -> OfScope:
    """The decision, or one a size class, for one scope."""
    notes: list[dict[str, Any]] = []
    decided: list[Decided] = []
    slowest: Decided | None = None
    for name, rows in _sizes(one, chosen, notes):
        part = one.workload if name is None else one.workload.take(rows)
        with _memory_for_replay(con, len(part)):
            found = decide(
                part,
                replace(one.scope, size_class=name),
                chosen,
                one.diagnosis,
                raced=int((rows & one.raced_rows).sum()),
                attempts=one.loaded.attempts if name is None else part,
                facts=one.facts,
            )
        decided.append(replace(found, basis=None))  # the requests of all scopes at once need not fit in memory
        if found.policy.hedge is not None and (
            slowest is None or _rank(found.policy, chosen) < _rank(slowest.policy, chosen)
        ):
            slowest = found
        notes += [n for n in found.notes if n not in notes]
    seen = Coverage()
    seen.add(one.workload)
    own = _source_notes(one.raced, one.cache_hits, one.loaded.closed_loop)
    notes += [n for n in own if n not in notes]
    return OfScope(tuple(decided), tuple(notes), seen, slowest)


def composed(every: Iterable[OfScope], prepared: Prepared, chosen: Options) -> Recommended:
    """The document over what each scope, largest first, adds to it."""
    notes: list[dict[str, Any]] = list(prepared.notes)
    if prepared.skew is not None and prepared.skew.telling and not chosen.one_clock:
        text = (
            "no delay rests on first tokens: their clock is not that of the start. Log both on one, or set one_clock = true "
            "under [recommend] if they are"
        )
        notes.append({"code": "ttft_withheld", "level": "warning", "share": None, "text": text})
    decided: list[Decided] = []
    slowest: Decided | None = None
    seen = Coverage()
    for one in every:
        decided += one.decided
        notes += [n for n in one.notes if n not in notes]
        seen.merge(one.seen)
        if one.slowest is not None and (
            slowest is None or _rank(one.slowest.policy, chosen) < _rank(slowest.policy, chosen)
        ):
            slowest = one.slowest
    entries = [one.policy for one in decided]
    if not entries:
        raise InputError(
            "no request is left in the selection",
            hint="widen --since, --until, --window or --where; a request without a time is in no selection: hedgectl check counts them",
        )
    return Recommended(_document(prepared, chosen, entries, seen, decided, notes), slowest)


def nothing(prepared: Prepared, options: Options) -> dict[str, Any]:
    """The same document for logs that hold no request at all: not enough data, n = 0."""
    entry = too_little(Workload.of((), (), ()), Scope(), options)
    assert entry is not None
    return _document(prepared, options, [entry], Coverage(), [], list(prepared.notes))


def _document(
    prepared: Prepared,
    options: Options,
    entries: list[ScopePolicy],
    seen: Coverage,
    decided: list[Decided],
    notes: list[dict[str, Any]],
) -> dict[str, Any]:
    return PolicyDocument(
        as_of=prepared.as_of or _EPOCH,
        policies=tuple(sorted(entries, key=lambda e: _rank(e, options))),
        goal=options.goal,
        window=dict(prepared.window),
        coverage=seen.document(),
        method=_method(decided, options),
        notes=tuple(notes),
    ).to_document()


@contextmanager
def _memory_for_replay(con: duckdb.DuckDBPyConnection, requests: int) -> Iterator[None]:
    """A long log's tables go to the temporary folder while it is replayed: both do not fit in 2 GB."""
    if requests < LONG_LOG:
        yield
        return
    # A database that cannot shrink (no temporary folder, no space) keeps what it has: slower for nobody, only larger.
    with suppress(Exception):
        decompose.run(con, "recommend/memory_small")
    try:
        yield
    finally:
        with suppress(Exception):
            decompose.run(con, "recommend/memory_usual")


def _sizes(
    one: scopes.ScopeData, options: Options, notes: list[dict[str, Any]]
) -> list[tuple[str | None, NDArray[np.bool_]]]:
    """The scope whole, or in classes of prompt size. Classes that share engines cannot be replayed apart."""
    everyone: list[tuple[str | None, NDArray[np.bool_]]] = [(None, np.ones(len(one.workload), dtype=bool))]
    if options.by_size and not _share_engines(options):
        found = list(sizes.classes(one.workload, options.needed()))
        if len(found) > 1:
            return found
    notes += _one_size(options)
    return everyone


def _share_engines(options: Options) -> bool:
    return options.config is not None and bool(options.config.get("engine.confirmed", False))


def _one_size(options: Options) -> list[dict[str, Any]]:
    """Why there is one policy for all sizes of prompts, where one a size was asked for."""
    if not options.by_size:
        return []
    if _share_engines(options):
        text = "prompts of all sizes share the engines, so one replay and one policy speak for all of them"
        code = "sizes_share_engines"
    else:
        text = f"no two classes of prompt size have {options.needed()} answers each, so one policy speaks for all"
        code = "one_size_class"
    return [{"code": code, "level": "info", "share": None, "text": text}]


def _method(decided: list[Decided], options: Options) -> dict[str, Any]:
    """``simulation`` if any scope was replayed; the check is that of the largest such scope (each entry has its own)."""
    checks = [one.replay_check for one in decided if one.replay_check is not None]
    replayed = any(one.estimator == "simulation" for one in decided)
    return {
        "hedgectl": hedgectl.__version__,
        "seed": options.seed,
        "estimator": "simulation" if replayed else "matched",
        "replay_check": checks[0] if checks else None,
    }


def _rank(entry: ScopePolicy, options: Options) -> tuple[float, str]:
    """Slowest first, by the goal's percentile without copies; scopes without one come last."""
    metric, p = parts(options.goal)
    arm = (entry.projection or {}).get("unhedged") or {}
    value = (arm.get(f"{metric}_ms") or {}).get(f"p{p * 100:g}")
    return (1.0 if value is None else -float(value), entry.scope.name)


def _source_notes(raced: int, cache_hits: int, closed_loop: bool) -> list[dict[str, Any]]:
    found = []
    if raced:
        text = (
            f"{raced} requests had a copy already: primaries that lost count as longer than seen, "
            "and the unhedged arm is what they would have been alone"
        )
        found.append({"code": "already_hedged", "level": "info", "share": None, "text": text})
    if cache_hits:
        text = f"{cache_hits} answers came from a response cache: they reach no replica and never get a copy, so they are left out"
        found.append({"code": "cache_hits_left_out", "level": "info", "share": None, "text": text})
    if closed_loop:
        text = "the source waited for answers before it sent more, so a slow moment hides its own victims"
        found.append({"code": "closed_loop", "level": "warning", "share": None, "text": text})
    return found


class Coverage:
    """Share of requests that carry what the decision rests on, over all scopes."""

    def __init__(self) -> None:
        self._total = 0
        self._count = dict.fromkeys(_COVERED, 0)

    def count(self, total: int, known: Mapping[str, int]) -> None:
        """Adds `total` requests and how many of them carry each part."""
        self._total += total
        for name in self._count:
            self._count[name] += known[name]

    def add(self, w: Workload) -> None:
        """Counts one scope's requests."""
        self._total += len(w)
        for name, column in _COVERED.items():
            values = getattr(w, column)
            known = np.isfinite(values) if values.dtype.kind == "f" else values >= 0
            if name == "e2e":
                known &= w.status != ERROR
            self._count[name] += int(known.sum())

    def merge(self, other: Coverage) -> None:
        """Adds what another one counted."""
        self.count(other._total, other._count)

    def document(self) -> dict[str, float]:
        """Shares of 1; 0 for no requests."""
        return {name: round(count / self._total, 6) if self._total else 0.0 for name, count in self._count.items()}


_COVERED = {
    "e2e": "e2e_s",
    "ttft": "ttft_s",
    "headers": "headers_s",
    "queue": "queue_s",
    "prefill": "prefill_s",
    "decode": "decode_s",
    "replica": "replica",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "cost": "cost",
}
