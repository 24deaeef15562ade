"""One run of the cron job: ingest, history, check, recommend, gates, hysteresis, and files that are never half-written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedgectl import analysis, checks, decompose, emitters, store
from hedgectl.daily import choosing, delays, files, gates, intake, lock, state
from hedgectl.daily.job import Job
from hedgectl.errors import HedgectlError, InputError, NotEnoughData, UsageError
from hedgectl.policy import PolicyDocument, parse, seconds
from hedgectl.recommend import run as recommendation
from hedgectl.recommend import spread

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
            read, memory = intake.take_in(job, stack)
            # others may have read into a folder: without logs of its own this run has to look
            elsewhere = read is None and job.logs.folder is not None
            new_rows = elsewhere or (read is not None and read["totals"]["accepted"] > 0)
            if old is not None and not new_rows and not _late(job, old):
                _emit(job, old)
                return _document(job, read, "nothing_new", old, old, [], [])
            _say(job, "deciding")
            found, seen, said = _recommended(job, memory)
            merged = delays.all_hosts(job)
            if merged is not None:
                found = delays.with_merged(found, merged)
            spread = delays.of_days(memory.con, job, found)
            answers = gates.judge(old, found, bad_rows=seen, spread=spread, max_delay_change=job.max_delay_change)
            if job.strict:
                answers.append(gates.strict([*([] if read is None else read["notes"]), *said]))
            action, chosen, reasons = choosing.choose(job, old, found, answers)
            if not job.dry_run:
                if chosen is not None and action in ("written", "renewed"):
                    files.write_keeping_previous(job.policy, _text(chosen))
                if chosen is not None:
                    _emit(job, chosen)
                if job.state_dir is not None:
                    state.keep(memory.con, job.state_dir)
            document = _document(job, read, action, old, chosen, answers, reasons)
            if job.logs.db is not None and job.logs.folder is None and not job.dry_run and action != "kept":
                document["notes"] += intake.pruned(job, job.logs.db)
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
