"""Writes sample_logs/joined: one stretch of traffic as its gateway and as its engines saw it. Run: python tests/make_joined_sample.py"""

from __future__ import annotations

import hashlib
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "sample_logs" / "joined"
START = datetime(2026, 10, 12, 9, 0, tzinfo=UTC)
AHEAD_NS = 1_700_000_000  # the engines' clocks


def files() -> dict[str, str]:
    """Two engines, one of them slow to start for some seconds; the gateway hedges after 2 s and cancels the loser, of which vLLM writes
    no span. One warm-up call went past the gateway."""
    draw = random.Random(12)
    rows: list[dict[str, Any]] = []
    spans = [_span("cmpl-warm-up-0", "gpu-0", -20.0, (0.001, 0.05, 0.2), 16, 4)]
    at = 0.0
    for n in range(60):
        at += draw.expovariate(2.0)
        replica = draw.randrange(2)
        prompt, answer = draw.randrange(80, 900), draw.randrange(20, 120)
        slow = replica == 1 and 8 < at < 14
        queue = draw.uniform(2.5, 5.0) if slow else draw.expovariate(1 / 0.02)
        parts = (queue, 0.03 + prompt * 0.0002, answer * 0.018)
        hedged = sum(parts[:2]) > 2.0
        if hedged:
            rows.append(_row(n, at, replica, 1, "primary", prompt, 2.0 + 0.12, None, None))
            replica, parts = 1 - replica, (draw.expovariate(1 / 0.02), *parts[1:])
        sent = at + (2.0 if hedged else 0.0)
        front = draw.uniform(0.004, 0.03)  # the gateway's own time
        role, attempt = ("hedge", 2) if hedged else ("primary", 1)
        rows.append(_row(n, sent, replica, attempt, role, prompt, front + sum(parts), front + sum(parts[:2]), answer))
        spans.append(_span(f"cmpl-q{n}-{attempt}-0", f"gpu-{replica}", sent + front / 2, parts, prompt, answer))
    return {
        "gateway.jsonl": "".join(json.dumps(r) + "\n" for r in rows),
        "engines.otlp.jsonl": "".join(json.dumps(s) + "\n" for s in spans),
    }


def _row(
    n: int, at: float, replica: int, attempt: int, role: str, prompt: int, e2e: float, ttft: float | None, answer: int | None
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = {
        "ts": (START + timedelta(seconds=round(at, 3))).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "request_id": f"q{n}",
        "attempt": attempt,
        "attempt_id": f"q{n}-{attempt}",
        "hedge_role": role,
        "replica": f"r{replica}",
        "model": "chat",
        "status": 200 if answer else 499,
        "stream": True,
        "e2e_ms": round(e2e * 1000, 1),
        "prompt_tokens": prompt,
    }
    if ttft is not None:
        row |= {"ttft_ms": round(ttft * 1000, 1), "completion_tokens": answer}
    return row


def _span(name: str, service: str, at: float, parts: tuple[float, ...], prompt: int, answer: int) -> dict[str, Any]:
    begin = int(START.timestamp()) * 1_000_000_000 + round(at * 1e9) + AHEAD_NS
    whole = sum(parts)
    times = {
        "e2e": whole,
        "time_to_first_token": parts[0] + parts[1],
        "time_in_queue": parts[0],
        "time_in_model_prefill": parts[1],
        "time_in_model_decode": parts[2],
    }
    attributes = [{"key": f"gen_ai.latency.{k}", "value": {"doubleValue": round(v, 6)}} for k, v in times.items()]
    attributes += [
        {"key": "gen_ai.request.id", "value": {"stringValue": name}},
        {"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": str(prompt)}},
        {"key": "gen_ai.usage.completion_tokens", "value": {"intValue": str(answer)}},
    ]
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    span = {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "llm_request",
        "kind": 2,
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + round(whole * 1e9)),
        "attributes": attributes,
        "status": {},
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "vllm"}, "spans": [span]}]}]}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
