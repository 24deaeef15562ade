"""Writes the samples of the trace stores: one agent turn and the odd spans that stores hold, in the shape of each store.

Run: python tests/make_trace_samples.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trace_spans import (
    FRAMEWORK_CALL,
    ODD,
    OTHER,
    SDK_CALL,
    T0,
    TRACE,
    TURN,
    Span,
    b64,
    genai,
    iso,
    langfuse_sdk,
    openinference,
    value,
)


def otlp(s: Span, attributes: dict[str, Any], *, event: str | None = None) -> dict[str, Any]:
    span: dict[str, Any] = {"traceId": s.trace, "spanId": s.id, "name": s.name, "kind": 3 if s.kind == "model" else 1}
    if s.parent:
        span["parentSpanId"] = s.parent
    span |= {"startTimeUnixNano": str(s.start_ns), "endTimeUnixNano": str(s.end_ns or 0)}
    span["attributes"] = [{"key": k, "value": value(v)} for k, v in attributes.items()]
    if event and s.first_ns is not None:
        span["events"] = [{"timeUnixNano": str(s.first_ns + i * 2_000_000), "name": event} for i in range(3)]
    span["status"] = {"code": 2, "message": s.error} if s.error else {}
    return span


def batch(spans: list[dict[str, Any]]) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "agent-app"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "traced"}, "spans": spans}]}]}


def snake(span: dict[str, Any]) -> dict[str, Any]:
    """As Phoenix's otlpv1: snake_case, number nanoseconds, unset values null, named enums."""
    names = {
        "stringValue": "string_value",
        "intValue": "int_value",
        "doubleValue": "double_value",
        "boolValue": "bool_value",
        "arrayValue": "array_value",
    }
    unset: dict[str, Any] = dict.fromkeys(
        ("array_value", "bool_value", "bytes_value", "double_value", "int_value", "kvlist_value", "string_value")
    )
    return {
        "trace_id": span["traceId"], "span_id": span["spanId"], "parent_span_id": span.get("parentSpanId"), "name": span["name"],
        "kind": "SPAN_KIND_INTERNAL", "start_time_unix_nano": int(span["startTimeUnixNano"]), "end_time_unix_nano": int(span["endTimeUnixNano"]) or None,
        "attributes": [{"key": a["key"], "value": {**unset, **{names[k]: v for k, v in a["value"].items()}}} for a in span["attributes"]],
        "events": [{"name": e["name"], "time_unix_nano": int(e["timeUnixNano"]), "attributes": []} for e in span.get("events", [])] or None,
        "status": {"code": span["status"].get("code", 0), "message": span["status"].get("message")}, "links": None,
    }  # fmt: skip


def tempo(span: dict[str, Any]) -> dict[str, Any]:
    """Ids in base64, enums by name."""
    out = {**span, "traceId": b64(span["traceId"]), "spanId": b64(span["spanId"]), "kind": "SPAN_KIND_INTERNAL"}
    if "parentSpanId" in span:
        out["parentSpanId"] = b64(span["parentSpanId"])
    out["status"] = {"code": "STATUS_CODE_ERROR", "message": span["status"]["message"]} if span["status"] else {}
    return out


def files() -> dict[str, str]:
    """Path below sample_logs -> text."""
    out: dict[str, str] = {}
    every = (*TURN, *ODD)
    # children first, over several lines, as an SDK writes them
    spans = [otlp(s, genai(s)) for s in reversed(every)]
    spans[0]["traceId"] = spans[0]["traceId"].upper()
    nested = [otlp(SDK_CALL, genai(SDK_CALL)), otlp(FRAMEWORK_CALL, genai(FRAMEWORK_CALL))]
    plain = otlp(
        Span("e000000000000002", "e000000000000001", "tool", "GET /health", 71000, 71001, trace="e1" + OTHER[2:]),
        {"http.route": "/health"},
    )
    lines = [
        batch(spans[:4]),
        batch(spans[4:9]),
        batch(spans[9:]),
        batch([nested[0]]),
        batch([nested[1]]),
        batch([plain]),
    ]
    out["otlp_genai/genai.jsonl"] = "".join(json.dumps(x) + "\n" for x in lines)
    event = "gen_ai.content.completion.chunk"
    traceloop = []
    for s in TURN:
        a = (
            genai(s)
            if s.kind == "model"
            else {"traceloop.span.kind": {"retriever": "task"}.get(s.kind, s.kind), "traceloop.entity.name": s.name}
        )
        a.pop("gen_ai.response.time_to_first_chunk", None)
        if s.kind == "model":
            a |= {
                "gen_ai.is_streaming": a.pop("gen_ai.request.stream"),
                "gen_ai.usage.reasoning_tokens": 4,
                "gen_ai.request.choice.count": 1,
            }
        traceloop.append(otlp(s, a, event=event))
    out["otlp_genai/openllmetry.jsonl"] = "".join(json.dumps(batch([x])) + "\n" for x in traceloop)
    first = "First Token Stream Event"
    oi = [otlp(s, openinference(s), event=first) for s in TURN]
    out["otlp_genai/phoenix_otlpv1.json"] = json.dumps({"data": [snake(x) for x in oi], "next_cursor": None}) + "\n"
    v1 = {"batches": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [tempo(x) for x in oi]}]}]}
    out["otlp_genai/tempo_v1.json"] = json.dumps(v1, indent=1) + "\n"
    out["otlp_genai/tempo_v2.json"] = json.dumps({"trace": batch([tempo(x) for x in oi])}) + "\n"
    sdk = [otlp(s, langfuse_sdk(s)) for s in TURN]
    out["otlp_genai/langfuse_sdk.jsonl"] = json.dumps(batch(sdk)) + "\n"
    out |= stores(every)
    return out


def stores(every: tuple[Span, ...]) -> dict[str, str]:
    """The stores that have shapes of their own."""
    out: dict[str, str] = {}
    rest, frame = [], []
    for s in every:
        a = openinference(s)
        kind = a.pop("openinference.span.kind")
        events = (
            [{"name": "First Token Stream Event", "timestamp": iso(s.first_ns, zone="+00:00"), "attributes": {}}]
            if s.first
            else []
        )
        head = {"name": s.name, "span_kind": kind, "parent_id": s.parent, "start_time": iso(s.start_ns, zone="+00:00"), "end_time": iso(s.end_ns, zone="+00:00"),
                "status_code": "ERROR" if s.error else "OK", "status_message": s.error or "", "events": events}  # fmt: skip
        rest.append({"id": s.id, "context": {"trace_id": s.trace, "span_id": s.id}, **head, "attributes": a})
        flat = {"attributes." + k: v for k, v in openinference(s).items()}
        frame.append({**head, "start_time": iso(s.start_ns, 3), "end_time": iso(s.end_ns, 3), "context.span_id": s.id, "context.trace_id": s.trace, **flat,
                      "attributes.llm.tools": None})  # fmt: skip
    out["phoenix_spans/rest_spans.jsonl"] = (
        json.dumps({"data": rest[:7], "next_cursor": "x"})
        + "\n"
        + json.dumps({"data": rest[7:], "next_cursor": None})
        + "\n"
    )
    out["phoenix_spans/dataframe.jsonl"] = "".join(json.dumps(x) + "\n" for x in frame[:7])
    spans = []
    for s in every:
        m: dict[str, Any] = {"mlflow.spanType": {"model": "CHAT_MODEL"}.get(s.kind, s.kind.upper())}
        if s.kind == "model":
            m |= {
                "mlflow.llm.model": "small-8b",
                "mlflow.llm.provider": "openai",
                "mlflow.spanInputs": {"stream": s.stream, "messages": []},
            }
            m["mlflow.chat.tools"] = [{"type": "function", "function": {"name": t}} for t in s.tools]
            if s.tokens:
                m["mlflow.chat.tokenUsage"] = {
                    "input_tokens": s.tokens[0],
                    "output_tokens": s.tokens[2],
                    "cache_read_input_tokens": s.tokens[1],
                }
            if s.cost:
                m["mlflow.llm.cost"] = {"total_cost": s.cost}
            if s.response:
                m["gen_ai.response.id"] = s.response
        # the role leaves before the prompt is read, the first word after it
        said = [("", -250_000_000), ("It", 0), (" rains", 1000)] if s.first_ns else []
        events = [
            {"name": f"mlflow.chunk.item.{i}", "time_unix_nano": (s.first_ns or 0) + later,
             "attributes": {"mlflow.chunk.value": json.dumps({"choices": [{"delta": {"role": "assistant", "content": text}}]})}}
            for i, (text, later) in enumerate(said)
        ]  # fmt: skip
        spans.append({"trace_id": b64(s.trace), "span_id": b64(s.id), "parent_span_id": b64(s.parent) if s.parent else None, "name": s.name,
                      "start_time_unix_nano": s.start_ns, "end_time_unix_nano": s.end_ns, "events": events,
                      "status": {"code": "STATUS_CODE_ERROR" if s.error else "STATUS_CODE_OK", "message": s.error or ""},
                      "attributes": {k: json.dumps(v) for k, v in m.items()}, "links": []})  # fmt: skip
    traces = [
        {"info": {"trace_id": "tr-" + t, "state": "OK", "request_time": iso(T0)}, "data": {"spans": x}}
        for t, x in ((TRACE, spans[:7]), *((s.trace, [p]) for s, p in zip(every[7:], spans[7:], strict=True)))
    ]
    out["mlflow_trace/traces.jsonl"] = "".join(json.dumps(t) + "\n" for t in traces)
    text = json.dumps(traces[0]).replace('"', '""')
    out["mlflow_trace/dataframe.csv"] = f'trace_id,trace,state,spans\ntr-{TRACE},"{text}",OK,"[]"\n'
    api, blob = [], []
    for s in every:
        model = s.kind == "model"
        usage = (
            {
                "input": s.tokens[0] - s.tokens[1],
                "input_cached_tokens": s.tokens[1],
                "output": s.tokens[2],
                "total": s.tokens[0] + s.tokens[2],
            }
            if s.tokens
            else {}
        )
        kind = "GENERATION" if model else s.kind.upper()
        api.append({"id": s.id, "traceId": s.trace, "type": kind, "name": s.name, "startTime": iso(s.start_ns, 3), "endTime": iso(s.end_ns, 3),
                    "completionStartTime": iso(s.first_ns, 3), "model": "small-8b" if model else None, "modelParameters": {"stream": s.stream} if model else {},
                    "level": "ERROR" if s.error else "DEFAULT", "statusMessage": s.error, "parentObservationId": s.parent,
                    "usageDetails": usage, "costDetails": {"total": s.cost} if s.cost else {}, "latency": None})  # fmt: skip
        blob.append({"id": s.id, "trace_id": s.trace, "project_id": "p", "type": kind, "parent_observation_id": s.parent or "", "start_time": iso(s.start_ns, 6, "", " "),
                     "end_time": iso(s.end_ns, 6, "", " "), "name": s.name, "level": "ERROR" if s.error else "DEFAULT", "status_message": s.error or "",
                     "provided_model_name": "small-8b" if model else "", "model_parameters": json.dumps({"stream": s.stream}) if model else "",
                     "usage_details": {**usage, "output_reasoning_tokens": 0} if usage else {}, "cost_details": {"total": s.cost} if s.cost else {},
                     "completion_start_time": iso(s.first_ns, 6, "", " "), "tool_definitions": dict.fromkeys(s.tools, "{}") if model else {}})  # fmt: skip
    out["langfuse/observations_api.json"] = json.dumps({"data": api, "meta": {"page": 1}}) + "\n"
    out["langfuse/blob_export.jsonl"] = "".join(json.dumps(x) + "\n" for x in blob)
    out["langfuse/trace_download.json"] = (
        json.dumps({"trace": {"id": TRACE, "observations": api[:7]}, "observations": api[:7]}, indent=1) + "\n"
    )
    click, jaeger, runs = [], [], []
    for s in every:
        a = {k: v if isinstance(v, str) else json.dumps(v) for k, v in openinference(s).items()}
        length = None if s.end_ns is None else s.end_ns - s.start_ns
        click.append({"Timestamp": iso(s.start_ns, 9, "", " "), "TraceId": s.trace, "SpanId": s.id, "ParentSpanId": s.parent or "", "SpanName": s.name, "SpanKind": "Internal",
                      "ServiceName": "agent-app", "SpanAttributes": a, "Duration": str((length or 0) % 2**64) if length is not None else None,
                      "StatusCode": "Error" if s.error else "Ok", "StatusMessage": s.error or "",
                      "Events.Timestamp": [iso(s.first_ns, 9, "", " ")] if s.first else [], "Events.Name": ["First Token Stream Event"] if s.first else []})  # fmt: skip
        tags = [{"key": k, "type": "string", "value": v} for k, v in openinference(s).items()]
        if s.error:
            tags += [
                {"key": "error", "type": "bool", "value": True},
                {"key": "otel.status_description", "type": "string", "value": s.error},
            ]
        logs = (
            [
                {
                    "timestamp": s.first_ns // 1000,
                    "fields": [{"key": "event", "type": "string", "value": "First Token Stream Event"}],
                }
            ]
            if s.first_ns
            else []
        )
        jaeger.append({"traceID": s.trace, "spanID": s.id, "operationName": s.name, "references": [{"refType": "CHILD_OF", "traceID": s.trace, "spanID": s.parent}] if s.parent else [],
                       "startTime": s.start_ns // 1000, "duration": None if length is None else length // 1000, "tags": tags, "logs": logs, "processID": "p1"})  # fmt: skip
        model = s.kind == "model"
        runs.append({"id": s.id, "name": s.name, "run_type": {"model": "llm", "agent": "chain"}.get(s.kind, s.kind), "start_time": iso(s.start_ns, 6, ""), "end_time": iso(s.end_ns, 6, ""),
                     "status": "error" if s.error else "success" if s.end_ns else "pending", "error": s.error, "events": [], "trace_id": s.trace, "parent_run_id": s.parent,
                     "dotted_order": s.id, "session_id": "project-1", "extra": {"metadata": {"ls_model_name": "small-8b", "ls_provider": "openai"} if model else {}},
                     "prompt_tokens": s.tokens[0] if s.tokens else None, "completion_tokens": s.tokens[2] if s.tokens else None,
                     "prompt_token_details": {"cache_read": s.tokens[1]} if s.tokens else None, "first_token_time": iso(s.first_ns, 6, ""), "total_cost": str(s.cost) if s.cost else None})  # fmt: skip
    out["clickhouse_otel/otel_traces.jsonl"] = "".join(json.dumps(x) + "\n" for x in click)
    by_trace = [jaeger[:7], *([x] for x in jaeger[7:])]
    out["jaeger/traces.json"] = (
        json.dumps(
            {
                "data": [
                    {"traceID": x[0]["traceID"], "spans": x, "processes": {"p1": {"serviceName": "agent-app"}}}
                    for x in by_trace
                ]
            }
        )
        + "\n"
    )
    out["langsmith_runs/runs.jsonl"] = "".join(json.dumps(x) + "\n" for x in runs)
    return out


def main() -> None:
    """Writes the files."""
    folder = Path(__file__).resolve().parent.parent / "sample_logs"
    for name, text in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(name, len(text))


if __name__ == "__main__":
    main()
