"""A run as canonical attempts in the database: one more log, read by every other command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hedgectl import sql
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.prompts import tool_name
from hedgectl.probe.records import AttemptRecord, CallRecord
from hedgectl.probe.result import bills_of

if TYPE_CHECKING:
    from hedgectl.store import Store


def write(outcome: Outcome, store: Store) -> int:
    """Adds every attempt of the run in one transaction; returns how many. Warm-up and cancel checks are requests too."""
    rows = attempts(outcome)
    if not rows:
        return 0
    with store.transaction() as con:
        found = con.execute(sql.text("probe/insert_run"), {"run": outcome.run_id, "attempts": len(rows)}).fetchone()
        assert found is not None
        con.execute(sql.text("probe/insert_attempt"), {"rows": json.dumps(rows), "file": found[0]})
    return len(rows)


def attempts(outcome: Outcome) -> list[dict[str, Any]]:
    """One dict an attempt, under the canonical names."""
    rows: list[dict[str, Any]] = []
    for call in outcome.everything:
        bills = bills_of(call, outcome.settings)
        for k, record in enumerate(call.attempts):
            # what the bill may be at most: losers are billed in full until somebody shows otherwise
            cost = f"{bills[k][1]:.12f}" if bills else None
            rows.append({"line": len(rows) + 1, **_row(outcome, call, record), "cost": cost})
    return rows


def _row(outcome: Outcome, call: CallRecord, record: AttemptRecord) -> dict[str, Any]:
    s = outcome.settings
    prompt = s.prompts[call.index % len(s.prompts)]
    # The primary arrives when the plan says so, lateness of this client included; a copy arrives when it is sent.
    arrival = call.planned_ns if record.number == 0 else record.started_ns

    def since(moment: int | None) -> int | None:
        return None if moment is None else moment - arrival

    first, ended = record.first_token_ns, record.ended_ns
    whole = record.status == "ok" and first is not None and ended is not None
    return {
        "request_id": call.request_id,
        "attempt_id": record.attempt_id,
        "attempt_no": record.number,
        "cause": record.cause,
        "replica": record.replica,
        "model": outcome.model or None,
        "provider": s.provider.name,
        "route": None,
        "arrival_ns": outcome.epoch_ns + arrival,
        "e2e_ns": since(ended),
        "ttft_ns": since(first),
        "ttft_basis": None if first is None else "first_token",
        "headers_ns": since(record.headers_ns),
        "decode_ns": ended - first if whole and first is not None and ended is not None else None,
        "decode_basis": "derived" if whole else None,
        "prompt_tokens": record.usage.prompt,
        "cached_tokens": record.usage.cached,
        "completion_tokens": record.completion_tokens,
        "reasoning_tokens": record.usage.reasoning,
        "request_bytes": record.request_bytes,
        "response_bytes": record.response_bytes,
        "status": record.status or "censored",
        "http_status": record.http_status,
        "error_kind": record.error_kind,
        "won": call.winning is record,
        "streamed": s.stream,
        "tools_offered": bool(prompt.tools),
        "tool_names": ",".join(sorted(tool_name(t) for t in prompt.tools)) or None,
        "currency": None if s.prices is None else s.prices.currency,
    }
