"""Writes sample_logs/litellm_payload/demo.jsonl.gz: three mornings of a chat service whose replicas are slow one at a time.

Four replicas behind a gateway that picks one at random. Each serves one prefill at a time and decodes at a steady pace; now and then one
of them is six times slower for about 40 s. Some requests offer tools, some are answered by the response cache, a few fail and are sent
again, a few callers leave. Nobody's data: all of it is drawn here. Same seed, same bytes.

Run: python tests/make_demo_log.py
"""

from __future__ import annotations

import gzip
import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SEED = 20261123
TARGET = Path(__file__).resolve().parent.parent / "sample_logs" / "litellm_payload" / "demo.jsonl.gz"

REPLICAS = ("engine-a", "engine-b", "engine-c", "engine-d")
MORNINGS = (
    datetime(2026, 11, 23, 9, tzinfo=UTC),
    datetime(2026, 11, 24, 9, tzinfo=UTC),
    datetime(2026, 11, 25, 9, tzinfo=UTC),
)
MORNING_S = 9000.0
RATE_PER_S = 0.27
SLOW_FACTOR = 6.0
SLOW_EVERY_S = 250.0  # mean gap between slow spells anywhere in the fleet, within a morning
SLOW_S = (25.0, 50.0)
PREFILL_S, PREFILL_PER_TOKEN_S, TOKEN_S = 0.06, 0.00018, 0.014
PRICE = {"prompt": 0.5e-6, "cached": 0.05e-6, "completion": 1.5e-6}
TOOLS = ("get_order", "get_weather", "refund_order", "search_help")


def slow_spells(rng: random.Random) -> list[tuple[float, float, str]]:
    """(from, to, replica) in seconds of the morning; at most one replica is slow at a time."""
    spells = []
    at = rng.expovariate(1 / SLOW_EVERY_S)
    while at < MORNING_S:
        end = at + rng.uniform(*SLOW_S)
        spells.append((at, end, rng.choice(REPLICAS)))
        at = end + rng.expovariate(1 / SLOW_EVERY_S)
    return spells


def pace(spells: list[tuple[float, float, str]], replica: str, at: float) -> float:
    """How many times slower than usual ``replica`` is at second ``at``."""
    return SLOW_FACTOR if any(a <= at < b and r == replica for a, b, r in spells) else 1.0


def row(number: int, **fields: Any) -> dict[str, Any]:
    """The fields every row has, in the order in which LiteLLM writes them."""
    base: dict[str, Any] = {
        "id": f"chatcmpl-{number:06d}",
        "litellm_call_id": f"call-{number:06d}",
        "trace_id": f"trace-{number:06d}",
        "call_type": "acompletion",
        "cache_hit": False,
        "stream": True,
        "status": "success",
        "custom_llm_provider": "hosted_vllm",
    }
    base.update(fields)
    return base


def morning(rng: random.Random, start_s: float, first: int) -> list[dict[str, Any]]:
    """The rows of one morning, in order of their end, as a gateway writes them."""
    spells = slow_spells(rng)
    free_at = dict.fromkeys(REPLICAS, 0.0)
    rows: list[dict[str, Any]] = []
    at, number = 0.0, first
    while True:
        at += rng.expovariate(RATE_PER_S)
        if at >= MORNING_S:
            return sorted(rows, key=lambda r: (r["endTime"], r["id"]))
        number += 1
        prompt = max(20, int(rng.lognormvariate(6.7, 0.4)))
        cached = (prompt // 2) // 16 * 16 if rng.random() < 0.3 else 0
        tokens = min(1200, max(3, int(rng.lognormvariate(5.1, 0.5))))
        streamed = rng.random() < 0.96
        tools = sorted(rng.sample(TOOLS, rng.randint(1, 2))) if rng.random() < 0.06 else []
        parameters: dict[str, Any] = {"stream": streamed}
        if tools:
            parameters["tools"] = [{"type": "function", "function": {"name": name}} for name in tools]
        tier = "pro" if rng.random() < 0.4 else "free"
        metadata = {
            "user_api_key_request_route": "/v1/chat/completions",
            "user_api_key_auth_metadata": {"tier": tier},
            "usage_object": {"prompt_tokens_details": {"cached_tokens": cached}},
        }
        replica = rng.choice(REPLICAS)
        begin = at
        common: dict[str, Any] = {
            "model": "example-8b", "model_group": "chat", "model_parameters": parameters, "metadata": metadata, "prompt_tokens": prompt,
        }  # fmt: skip
        if rng.random() < 0.03:
            end = at + rng.uniform(0.001, 0.004)
            rows.append(
                row(number, id=f"chatcmpl-{number:06d}_cache_hit{start_s + at:.4f}", cache_hit=True, stream=None, model_id=replica,
                    startTime=round(start_s + at, 6), completionStartTime=round(start_s + end, 6), endTime=round(start_s + end, 6),
                    completion_tokens=tokens, response_cost=0.0, **common)
            )  # fmt: skip
            continue
        if rng.random() < 0.01:
            failed = rng.uniform(0.02, 0.2)
            code, kind = ("429", "RateLimitError") if rng.random() < 0.5 else ("500", "InternalServerError")
            end = at + failed
            rows.append(
                row(number, id=f"call-{number:06d}", status="failure", stream=None, model_id=replica,
                    startTime=round(start_s + at, 6), completionStartTime=round(start_s + end, 6), endTime=round(start_s + end, 6),
                    completion_tokens=0, response_cost=0.0, error_information={"error_code": code, "error_class": kind}, **common)
            )  # fmt: skip
            replica = rng.choice([r for r in REPLICAS if r != replica])
            begin = end + rng.uniform(0.02, 0.05)
        wait = max(0.0, free_at[replica] - begin)
        slow = pace(spells, replica, begin + wait)
        prefill = (PREFILL_S + PREFILL_PER_TOKEN_S * (prompt - cached)) * slow * rng.uniform(0.9, 1.15)
        free_at[replica] = begin + wait + prefill
        first_token = begin + wait + prefill + rng.uniform(0.004, 0.012)
        end = first_token + (tokens - 1) * TOKEN_S * slow * rng.uniform(0.95, 1.1)
        extra: dict[str, Any] = {}
        if streamed and rng.random() < 0.004:
            # the caller hangs up in mid-stream: still "success", with error code 499
            share = rng.uniform(0.2, 0.8)
            end, tokens = first_token + share * (end - first_token), max(1, int(share * tokens))
            extra["error_information"] = {"error_code": "499", "error_class": "ClientDisconnected"}
        cost = PRICE["prompt"] * (prompt - cached) + PRICE["cached"] * cached + PRICE["completion"] * tokens
        # a streamed row after a retry starts at the request, a whole answer at the attempt that answered
        shown = at if streamed else begin
        rows.append(
            row(number, stream=True if streamed else None, model_id=replica,
                startTime=round(start_s + shown, 6), completionStartTime=round(start_s + (first_token if streamed else end), 6),
                endTime=round(start_s + end, 6), completion_tokens=tokens, response_cost=round(cost, 9), **common, **extra)
        )  # fmt: skip


def demo() -> bytes:
    """The log as JSON lines."""
    rng = random.Random(SEED)
    rows: list[dict[str, Any]] = []
    for day in MORNINGS:
        rows.extend(morning(rng, day.timestamp(), len(rows)))
    return "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows).encode()


def packed(text: bytes) -> bytes:
    """gzip without a time stamp, so that the same log gives the same file."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as out:
        out.write(text)
    return buffer.getvalue()


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(packed(demo()))
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
