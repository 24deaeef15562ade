"""One agent turn and the odd spans that stores hold, and the attributes that each convention writes of a span."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

T0 = 1_793_527_200_000_000_000  # 2026-11-01T10:00:00Z
TRACE = "4d1f0b8e6a2c97351e8d40c2b7a6f913"
OTHER = "9be2410577c3fa08d61c35e94f0a7b26"
EXPECTED_MS = {
    "wall": 7000,
    "model": 3750,
    "tool_wait": 2550,
    "other": 700,
    "tool": 3050,
    "tool_sum": 6250,
    "calls": 2,
    "tools": 4,
}
"""The turn of TRACE. The retriever inside search and the tool that runs beside the second call must not count twice."""


@dataclass(frozen=True)
class Span:
    """One span: times in ms from T0; ``first`` = first token; ``kind`` agent | model | tool | retriever."""

    id: str
    parent: str | None
    kind: str
    name: str
    start: float
    end: float | None
    trace: str = TRACE
    first: float | None = None
    tokens: tuple[int, int, int] | None = None  # prompt, cached, completion
    error: str | None = None
    stream: bool = False
    response: str | None = None
    tools: tuple[str, ...] = field(default=())
    cost: float | None = None

    @property
    def start_ns(self) -> int:
        return T0 + round(self.start * 1e6)

    @property
    def end_ns(self) -> int | None:
        return None if self.end is None else T0 + round(self.end * 1e6)

    @property
    def first_ns(self) -> int | None:
        return None if self.first is None else T0 + round(self.first * 1e6)


TURN = (
    Span("a000000000000001", None, "agent", "trip_planner", 0, 7000),
    Span("a000000000000002", "a000000000000001", "model", "chat small-8b", 100, 1900, first=500, tokens=(900, 512, 60),
         stream=True, response="resp-0001", tools=("find_hotel", "search"), cost=0.00041),
    Span("a000000000000003", "a000000000000001", "tool", "find_hotel", 1950, 3500),
    Span("a000000000000004", "a000000000000001", "tool", "search", 2000, 4000),
    Span("a000000000000005", "a000000000000004", "retriever", "vector_query", 2200, 3900),
    Span("a000000000000006", "a000000000000001", "model", "chat small-8b", 4050, 6000, first=4950, tokens=(1400, 900, 110),
         stream=True, response="resp-0002", tools=("find_hotel", "search"), cost=0.00077),
    Span("a000000000000007", "a000000000000001", "tool", "book", 5500, 6500, error="sold out"),
)  # fmt: skip
ODD = (
    Span("b000000000000001", None, "model", "chat small-8b", 20000, 50000, trace=OTHER, error="request timed out", stream=True),
    Span("b000000000000002", None, "model", "chat small-8b", 60000, None, trace="c1" + OTHER[2:]),
    Span("b000000000000003", None, "model", "chat small-8b", 61000, 61000, trace="c2" + OTHER[2:], error="429 rate limit"),
    Span("b000000000000004", None, "model", "chat small-8b", 62000, 63000, trace="c3" + OTHER[2:], first=63000, tokens=(20, 0, 40), stream=True, response="resp-0003"),
    Span("b000000000000005", None, "model", "chat small-8b", 64000, 64800, trace="c4" + OTHER[2:], tokens=(20, 0, 40), response="resp-0004"),
    Span("b000000000000006", None, "model", "chat small-8b", 66000, 65000, trace="c5" + OTHER[2:]),
)  # fmt: skip


def iso(ns: int | None, digits: int = 6, zone: str = "Z", between: str = "T") -> str | None:
    if ns is None:
        return None
    moment = datetime.fromtimestamp(ns // 10**9, UTC).strftime(f"%Y-%m-%d{between}%H:%M:%S")
    return f"{moment}.{ns % 10**9:09d}"[: 20 + digits] + zone


def b64(hex_id: str) -> str:
    return base64.b64encode(bytes.fromhex(hex_id)).decode()


def value(x: Any) -> dict[str, Any]:
    if isinstance(x, bool):
        return {"boolValue": x}
    if isinstance(x, int):
        return {"intValue": str(x)}
    if isinstance(x, float):
        return {"doubleValue": x}
    if isinstance(x, list):
        return {"arrayValue": {"values": [value(i) for i in x]}}
    return {"stringValue": x}


def genai(s: Span) -> dict[str, Any]:
    """OpenTelemetry GenAI attributes."""
    if s.kind == "agent":
        return {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": s.name,
            "gen_ai.conversation.id": "talk-7",
        }
    if s.kind != "model":
        return {
            "gen_ai.operation.name": "execute_tool" if s.kind == "tool" else "retrieval",
            "gen_ai.tool.name": s.name,
        }
    a: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-8b",
    }
    if s.response:
        a["gen_ai.response.id"] = s.response
        a["gen_ai.response.finish_reasons"] = ["stop"]
    if s.tokens:
        a |= {
            "gen_ai.usage.input_tokens": s.tokens[0],
            "gen_ai.usage.cache_read.input_tokens": s.tokens[1],
            "gen_ai.usage.output_tokens": s.tokens[2],
        }
    if s.stream:
        a["gen_ai.request.stream"] = True
    if s.first is not None:
        a["gen_ai.response.time_to_first_chunk"] = (s.first - s.start) / 1000
    if s.tools:
        a["gen_ai.tool.definitions"] = json.dumps([{"type": "function", "name": t} for t in s.tools])
    if s.error:
        a["error.type"] = s.error
    a |= {"server.address": "engine-3.internal", "server.port": 8000}
    return a


def openinference(s: Span) -> dict[str, Any]:
    """OpenInference attributes; the first token is an event."""
    a: dict[str, Any] = {
        "openinference.span.kind": {"model": "LLM"}.get(s.kind, s.kind.upper()),
        "session.id": "talk-7",
    }
    if s.kind == "tool":
        a["tool.name"] = s.name
    if s.kind == "model":
        a |= {
            "llm.model_name": "small-8b",
            "llm.system": "openai",
            "llm.invocation_parameters": json.dumps({"stream": True} if s.stream else {}),
        }
        if s.response:
            a["output.value"] = json.dumps({"id": s.response})
        if s.tokens:
            a |= {
                "llm.token_count.prompt": s.tokens[0],
                "llm.token_count.prompt_details.cache_read": s.tokens[1],
                "llm.token_count.completion": s.tokens[2],
            }
        if s.cost:
            a["llm.cost.total"] = s.cost
        for i, t in enumerate(s.tools):
            a[f"llm.tools.{i}.tool.json_schema"] = json.dumps({"type": "function", "function": {"name": t}})
    return a


def langfuse_sdk(s: Span) -> dict[str, Any]:
    """What the Langfuse SDK puts on its OTLP spans."""
    a: dict[str, Any] = {"langfuse.observation.type": {"model": "generation"}.get(s.kind, s.kind)}
    if s.kind == "model":
        a |= {
            "langfuse.observation.model.name": "small-8b",
            "langfuse.observation.model.parameters": '{"max_tokens": "Infinity"}',
        }
        a["langfuse.observation.input"] = json.dumps(
            {"tools": [{"type": "function", "function": {"name": t}} for t in s.tools], "messages": []}
        )
        if s.tokens:
            a["langfuse.observation.usage_details"] = json.dumps(
                {"prompt_tokens": s.tokens[0], "completion_tokens": s.tokens[2], "prompt_tokens_details": {"cached_tokens": s.tokens[1]},
                 "completion_tokens_details": {"reasoning_tokens": 8}}
            )  # fmt: skip
        if s.first is not None:
            a["langfuse.observation.completion_start_time"] = json.dumps(iso(s.first_ns))
        if s.cost:
            a["langfuse.observation.cost_details"] = json.dumps({"total": s.cost})
    return a


SDK_CALL = Span(
    "d000000000000002",
    "d000000000000001",
    "model",
    "openai.chat",
    70010,
    70900,
    trace="d1" + OTHER[2:],
    tokens=(33, 0, 12),
    response="resp-0005",
)
FRAMEWORK_CALL = Span(
    "d000000000000001",
    None,
    "model",
    "ChatModel",
    70000,
    70910,
    trace="d1" + OTHER[2:],
    first=70200,
    tokens=(33, 0, 12),
    stream=True,
)
