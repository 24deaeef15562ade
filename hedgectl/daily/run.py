"""One run of the cron job: ingest, history, check, recommend, gates, hysteresis, and files that are never half-written."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgectl import analysis, checks, decompose, emitters, fleet, history, ingest, quantiles, sql, store
from hedgectl.daily import digests, files, gates, lock, state
from hedgectl.errors import HedgectlError, InputError, NotEnoughData, UsageError
from hedgectl.notes import note
from hedgectl.policy import PolicyDocument, ScopePolicy, parse, seconds
from hedgectl.recommend import run as recommendation
from hedgectl.recommend import spread
from hedgectl.recommend.options import Options
from hedgectl.tasks import Here, Tasks

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MIN_DIGEST_SHIFT = 0.01  # merged digests move a delay only beyond what a bucket can say
# checks that speak of broken data; the others name habits of a source that the analysis allows for
_BROKEN = frozenset(
    {
        "clock_skew",
        "hour_shift",
        "negative_parts",
        "no_arrival",
        "parts_exceed_e2e",
        "sums",
        "time_out_of_range",
        "tokens_out_of_range",
        "ttft_after_end",
        "two_winners",
        "weight",
    }
)
_DAY_NS = 86_400_000_000_000
_PRIMARY = {"response": "primary_e2e", "first_token": "primary_ttft"}


@dataclass(frozen=True, slots=True)
class Job:
    """What one run is told. ``db`` or ``state_dir`` holds the history; times in ns (UTC) and seconds."""

    logs: analysis.Logs
    policy: Path
    options: Options
    as_of_ns: int
    window_s: float = 7 * 86_400.0
    emit: Mapping[str, Path] = field(default_factory=dict)  # target -> file
    emit_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    state_dir: Path | None = None
    digests: Path | None = None
    host: str = "host"
    selection: decompose.Selection = field(default_factory=decompose.Selection)
    max_delay_change: float = gates.DELAY_CHANGE
    hysteresis: float = 0.05
    dry_run: bool = False
    strict: bool = False  # a warning about the data is a gate that says no
    progress: Callable[[str], None] | None = None
    tasks: Tasks = field(default_factory=Here)  # who reads into a folder and decides scope by scope

    @property
    def tz(self) -> str:
        return self.logs.tz or "UTC"


def daily(job: Job) -> dict[str, Any]:
    """Runs the job and returns ``daily.v1``; ``action`` is written, renewed, kept or nothing_new.

    Raises BusyError if another job or process holds the lock or the database, UsageError for a missing place,
    InputError for input or state that cannot be read. Whatever is raised, the old policy stays as it was.
    """
    if not job.policy.parent.is_dir():
        raise UsageError(f"there is no folder {job.policy.parent}", where=str(job.policy.parent), hint="create it")
    with lock.held(job.policy.with_name(f".{job.policy.name}.lock"), wait_s=job.logs.wait_s):
        for path in () if job.dry_run else (job.policy, *job.emit.values()):
            files.sweep(path)
        old = _old(job.policy)
        with ExitStack() as stack:
            read, memory = _take_in(job, stack)
            # others may have read into a folder: without logs of its own this run has to look
            elsewhere = read is None and job.logs.folder is not None
            new_rows = elsewhere or (read is not None and read["totals"]["accepted"] > 0)
            if old is not None and not new_rows and not _late(job, old):
                _emit(job, old)
                return _document(job, read, "nothing_new", old, old, [], [])
            _say(job, "deciding")
            found, seen, said = _recommended(job, memory)
            merged = _merged(job)
            if merged is not None:
                found = _with_merged(found, merged)
            spread = _spread(memory.con, job, found)
            answers = gates.judge(old, found, bad_rows=seen, spread=spread, max_delay_change=job.max_delay_change)
            if job.strict:
                answers.append(gates.strict([*([] if read is None else read["notes"]), *said]))
            action, chosen, reasons = _choose(job, old, found, answers)
            if not job.dry_run:
                if chosen is not None and action in ("written", "renewed"):
                    files.write_keeping_previous(job.policy, _text(chosen))
                if chosen is not None:
                    _emit(job, chosen)
                if job.state_dir is not None:
                    state.keep(memory.con, job.state_dir)
            document = _document(job, read, action, old, chosen, answers, reasons)
            if job.logs.db is not None and job.logs.folder is None and not job.dry_run and action != "kept":
                document["notes"] += _pruned(job, job.logs.db)
            return document


def _say(job: Job, text: str) -> None:
    if job.progress is not None:
        job.progress(text)


def _old(path: Path) -> PolicyDocument | None:
    found = files.read_json(path)
    if found is None:
        return None
    try:
        return parse(found)
    except UsageError as error:
        hint = f"restore {path.name}{files.PREVIOUS} or remove the file to start anew"
        raise InputError(f"the old policy is not valid: {error.what}", where=str(path), hint=hint) from error


def _take_in(job: Job, stack: ExitStack) -> tuple[dict[str, Any] | None, store.Store]:
    """Reads what is new and brings the history up to date; returns the ingest document and an in-memory copy."""
    if job.logs.folder is not None:
        return _from_folder(job, job.logs.folder, stack)
    if job.logs.db is None:
        memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
        if job.state_dir is not None:
            state.restore(memory.con, job.state_dir)
        alone = _ingest(job, memory)
        with memory.transaction() as con:
            history.record(con, tz=job.tz)
        return alone, memory
    read: dict[str, Any] | None = None
    if job.dry_run:
        # nothing may change: the file is copied, and what is new is read into the copy
        memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
        read = None
        if job.logs.db.exists():
            analysis.copy(job.logs.db, memory, wait_s=job.logs.wait_s, memory_limit=job.logs.memory_limit, history=True)
        if job.logs.paths:
            read = _ingest(job, memory)
        with memory.transaction() as con:
            history.record(con, tz=job.tz)
        return read, memory
    with store.connect(job.logs.db, memory_limit=job.logs.memory_limit, wait_s=job.logs.wait_s) as opened:
        if job.logs.paths:
            read = _ingest(job, opened)
        with opened.transaction() as con:
            history.record(con, tz=job.tz)
        if job.digests is not None:
            digests.export(opened.con, job.digests, job.host)
    memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
    analysis.copy(job.logs.db, memory, wait_s=job.logs.wait_s, memory_limit=job.logs.memory_limit, history=True)
    return read, memory


def _from_folder(job: Job, folder: str, stack: ExitStack) -> tuple[dict[str, Any] | None, store.Store]:
    """As :func:`_take_in` where the rows are kept in a folder; the history is made from them."""
    read: dict[str, Any] | None = None
    if job.logs.paths and not job.dry_run:
        read = fleet.ingest(
            folder,
            job.logs.paths,
            job.tasks,
            format=job.logs.format,
            map_file=job.logs.map_file,
            tz=job.logs.tz,
            max_reject=job.logs.max_reject,
            memory_limit=job.logs.memory_limit,
            join=job.logs.join,
            progress=job.progress,
        )
    memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
    fleet.load(folder, memory, decompose.Selection(since_ns=_keep_from_ns(job)))
    if job.logs.paths and job.dry_run:
        read = _ingest(job, memory)
    with memory.transaction() as con:
        history.record(con, tz=job.tz)
    return read, memory


def _keep_from_ns(job: Job) -> int:
    """Rows before this moment are in no window that is still to come; a day more for what arrives late."""
    return job.as_of_ns - round(job.window_s * 1e9) - _DAY_NS


def _pruned(job: Job, db: Path) -> list[dict[str, Any]]:
    """Lets go of raw rows that no later window needs, and says what went. Only a run that wrote a policy may."""
    try:
        with (
            store.connect(db, memory_limit=job.logs.memory_limit, wait_s=job.logs.wait_s) as opened,
            opened.transaction() as con,
        ):
            gone = history.prune(con, keep_from_ns=_keep_from_ns(job), tz=job.tz)
    except HedgectlError as error:
        # the policy stands by now, and these rows can go tomorrow as well
        return [note("not_pruned", f"old raw rows stay in {db} for now: {error.what}", level="warning")]
    if gone is None:
        return []
    text = (
        f"{gone.rows} raw rows of days before {gone.before} ({job.tz}) were removed from {db}: the window and a day before "
        "it are kept, and the daily figures of all days (hedgectl stats)"
    )
    return [note("rows_pruned", text)]


def _ingest(job: Job, into: store.Store) -> dict[str, Any]:
    return ingest.ingest(
        into,
        job.logs.paths,
        format=job.logs.format,
        map_file=job.logs.map_file,
        tz=job.logs.tz,
        max_reject=job.logs.max_reject,
        join=job.logs.join,
        progress=analysis.told(job.progress),
    )


def _late(job: Job, old: PolicyDocument) -> bool:
    """Whether the policy has to be renewed although nothing new came: half of its life is over."""
    made = analysis.moment_ns(old.as_of, flag="as_of")
    return (job.as_of_ns - made) / 1e9 > seconds(old.ttl) / 2


def _recommended(job: Job, memory: store.Store) -> tuple[PolicyDocument, dict[str, float], Sequence[Mapping[str, Any]]]:
    """The new policy over the trailing window, the share of rows that fail each data check, and the notes on the data."""
    selection = replace(job.selection, as_of_ns=job.as_of_ns, window_ns=round(job.window_s * 1e9), tz=job.logs.tz)
    with store.explained(memory.name):
        prepared = decompose.prepare(memory.con, selection)
        if not prepared.requests:
            raise NotEnoughData(
                "no request lies in the window",
                where=f"{prepared.window['from']} to {prepared.window['to']}",
                hint="are the logs of these days read? --as-of sets the end of the window",
            )
        if job.logs.folder is not None and not (job.dry_run and job.logs.paths):
            made = spread.recommended(
                memory.con, prepared, job.options, job.tasks, job.logs.folder, job.logs.memory_limit
            )
            document = made.document
        else:
            document = recommendation.recommend(memory.con, prepared, job.options)
        found = checks.check(memory.con, prepared)
    bad = {r["rule"]: r["offenders"] / max(prepared.attempts, 1) for r in found["rules"] if r["rule"] in _BROKEN}
    return parse(document), bad, prepared.notes


def _merged(job: Job) -> digests.Merged | None:
    if job.digests is None:
        return None
    last = _day(job.as_of_ns, job.tz)
    merged = digests.merge(job.digests, last=last, days=max(1, round(job.window_s / 86_400)))
    return merged if len(merged.hosts) > 1 else None


def _with_merged(found: PolicyDocument, merged: digests.Merged) -> PolicyDocument:
    """The policy with each delay taken from what all hosts saw, by the policy's own rule."""
    policies, notes = [], list(found.notes)
    for policy in found.policies:
        hedge = policy.hedge
        metric = _PRIMARY.get(hedge.trigger) if hedge is not None else None
        rule = hedge.delay_rule if hedge is not None else None
        value = merged.quantile(policy.scope.model, metric, rule.quantile) if rule is not None and metric else None
        if hedge is None or rule is None or value is None:
            policies.append(policy)
            continue
        delay = min(max(value + rule.margin_ms, rule.floor_ms), rule.ceiling_ms)
        if abs(delay / hedge.delay_ms - 1) > MIN_DIGEST_SHIFT:
            text = (
                f"{policy.scope.name}: the delay rests on {len(merged.hosts)} hosts: {delay:.0f} ms, this host alone would give "
                f"{hedge.delay_ms:.0f} ms; the projection is this host's"
            )
            notes.append({"code": "delay_from_all_hosts", "level": "info", "share": None, "text": text})
            policy = replace(policy, hedge=replace(hedge, delay_ms=round(delay, 3)))
        policies.append(policy)
    return replace(found, policies=tuple(policies), notes=tuple(notes))


def _spread(con: DuckDBPyConnection, job: Job, found: PolicyDocument) -> dict[tuple[str, str], tuple[float, float]]:
    """Lowest and highest delay, ms, that single days of the window would have given, by (model, trigger)."""
    last = _day(job.as_of_ns, job.tz)
    first = last - timedelta(days=max(1, round(job.window_s / 86_400)))
    rows = con.execute(sql.text("history/day_delays"), {"first": first, "last": last}).fetchall()
    by_day: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for (model, metric, _), group in itertools.groupby(rows, key=itemgetter(0, 1, 2)):
        by_day.setdefault((model, metric), []).append(tuple(group))
    spread: dict[tuple[str, str], tuple[float, float]] = {}
    for policy in found.policies:
        hedge = policy.hedge
        metric = _PRIMARY.get(hedge.trigger) if hedge is not None else None
        if hedge is None or metric is None or hedge.delay_rule is None:
            continue
        rule = hedge.delay_rule
        days = [d for (m, k), v in by_day.items() if k == metric and policy.scope.model in (None, m) for d in v]
        delays = [v for v in (_delay_of(day, rule.quantile, rule.margin_ms) for day in days) if v]
        if len(delays) >= 3:
            spread[(policy.scope.model or "", hedge.trigger)] = (min(delays), max(delays))
    return spread


def _delay_of(day: Sequence[tuple[Any, ...]], p: float, margin_ms: float) -> float | None:
    found = quantiles.bucket_summary([r[3] for r in day], [r[4] for r in day], [r[5] for r in day], ps=(p,))
    value = found.get(quantiles.name(p))
    return None if value is None else value / 1e6 + margin_ms


def _choose(
    job: Job, old: PolicyDocument | None, new: PolicyDocument, answers: Sequence[gates.Gate]
) -> tuple[str, PolicyDocument | None, list[str]]:
    """(action, policy that stands afterwards, reasons)."""
    failed = gates.failed(answers)
    if failed:
        return "kept", old, [g.text for g in failed]
    if old is None:
        return "written", new, []
    before = {p.scope: p for p in old.policies}
    settled, reasons = [], []
    for policy in new.policies:
        kept, why = _settle(job, before.get(policy.scope), policy, new.goal.min_gain_ratio)
        settled.append(kept)
        reasons += why
    chosen = replace(new, policies=tuple(settled))
    return ("renewed" if chosen.policy_id() == old.policy_id() else "written"), chosen, reasons


def _settle(job: Job, old: ScopePolicy | None, new: ScopePolicy, min_gain: float) -> tuple[ScopePolicy, list[str]]:
    """Hysteresis: a delay that hardly moved stays, and a hedge is switched on only for a gain clearly worth it.

    Switching off is never delayed.
    """
    if old is None:
        return new, []
    if new.is_on and old.is_on and old.hedge is not None and new.hedge is not None:
        same = replace(new.hedge, delay_ms=old.hedge.delay_ms, delays=old.hedge.delays, delay_rule=old.hedge.delay_rule)
        same = replace(same, deadline=old.hedge.deadline)
        moved = abs(new.hedge.delay_ms / old.hedge.delay_ms - 1)
        if 0 < moved <= job.hysteresis and replace(old.hedge) == same:
            return replace(new, hedge=old.hedge), [
                f"{new.scope.name}: the delay moved by {moved:.1%}, at most {job.hysteresis:.0%} is not worth a change"
            ]
    if new.is_on and not old.is_on and old.decision == "do_not_hedge":
        ratio = ((new.projection or {}).get("p99_change") or {}).get("ratio")
        needed = 1 - min_gain - job.hysteresis
        if ratio is not None and ratio > needed:
            text = f"{new.scope.name}: a gain of {1 - ratio:.1%} is not clearly above {min_gain:.0%}: hedging stays off"
            return replace(old, projection=new.projection), [text]
    return new, []


def _emit(job: Job, policy: PolicyDocument) -> None:
    """Brings every emitted file in line with the policy; also repairs what a killed run left behind."""
    if job.dry_run:
        return
    for target, path in job.emit.items():
        emitted = emitters.emit(policy, target, options=job.emit_options.get(target))
        if emitted.refusal is not None:
            raise HedgectlError(f"{target}: {emitted.refusal.what}", where=str(path), hint=emitted.refusal.hint)
        files.write_keeping_previous(path, emitted.text)


def _text(policy: PolicyDocument) -> str:
    return json.dumps(policy.to_document(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _day(ns: int, tz: str) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).astimezone(analysis.zone(tz)).date()


def _document(
    job: Job,
    read: dict[str, Any] | None,
    action: str,
    old: PolicyDocument | None,
    chosen: PolicyDocument | None,
    answers: Sequence[gates.Gate],
    reasons: Sequence[str],
) -> dict[str, Any]:
    decided = [] if chosen is None else chosen.policies
    return {
        "schema": "hedgectl/daily.v1",
        "as_of": decompose.rfc3339(job.as_of_ns),
        "action": action,
        "dry_run": job.dry_run,
        "ingested": None if read is None else read["totals"],
        "window": {} if chosen is None else dict(chosen.window),
        "policy": str(job.policy),
        "policy_id": None if chosen is None else chosen.policy_id(),
        "old_policy_id": None if old is None else old.policy_id(),
        "decisions": [
            {
                "scope": {"model": p.scope.model, "route": p.scope.route, "size_class": p.scope.size_class},
                "decision": p.decision,
                "trigger": p.hedge.trigger if p.hedge else None,
                "delay_ms": p.hedge.delay_ms if p.hedge else None,
            }
            for p in decided
        ],
        "gates": [g.to_document() for g in answers],
        "reasons": list(reasons),
        "emitted": {target: str(path) for target, path in job.emit.items()},
        "notes": [] if read is None else list(read.get("notes", [])),
    }
