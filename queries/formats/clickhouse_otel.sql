-- format: clickhouse_otel
-- title: OpenTelemetry spans in ClickHouse, table otel_traces
-- spec: clickhouseexporter of opentelemetry-collector-contrib
-- source: SELECT * FROM otel_traces WHERE Timestamp >= ... FORMAT JSONEachRow
-- input: json
-- detect: Timestamp, TraceId, SpanId, SpanName, Duration, SpanAttributes
-- clock: wall clock of the process that made the call; Timestamp is naive UTC
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, status, error_kind, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: export whole traces, not a page of spans. Queue and prefill are not in it: read the engines' spans too, with --join
-- traps: Duration is nanoseconds, quoted or not ; an end before the start wraps around to 2^64 ns ; all attribute values are text ; times have
--   no zone and are UTC ; SpanKind and StatusCode are spelled in two ways ; the first token is in Events.Name and Events.Timestamp, two lists
--   side by side
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH c AS MATERIALIZED (
    SELECT line, record, j->>'$.SpanName' AS name, otlp_attrs(CASE WHEN json_type(j->'$.SpanAttributes') = 'OBJECT' THEN j->'$.SpanAttributes' ELSE valid_json(j->>'$.SpanAttributes') END) AS attrs,
           otlp_id(j->>'$.TraceId') AS trace_id, otlp_id(j->>'$.SpanId') AS span_id, otlp_id(j->>'$.ParentSpanId') AS parent_id,
           iso_in_ns(j->>'$.Timestamp', NULL) AS start_ns,
           -- a negative duration wraps around in an unsigned number: larger than any BIGINT, or close to it
           CASE WHEN TRY_CAST(j->>'$.Duration' AS HUGEINT) > 9223372036854775807 THEN iso_in_ns(j->>'$.Timestamp', NULL) - 1
                ELSE TRY(iso_in_ns(j->>'$.Timestamp', NULL) + TRY_CAST(j->>'$.Duration' AS BIGINT)) END AS end_ns,
           upper(j->>'$.StatusCode') IN ('ERROR', 'STATUS_CODE_ERROR') AS failed, j->>'$.StatusMessage' AS message,
           list_min(list_transform(list_filter(list_zip(TRY_CAST(j->'$."Events.Name"' AS VARCHAR[]), TRY_CAST(j->'$."Events.Timestamp"' AS VARCHAR[])),
               lambda x: x[1] IN ('First Token Stream Event', 'gen_ai.content.completion.chunk', 'llm.content.completion.chunk', 'mlflow.chunk.item.0')),
               lambda x: iso_in_ns(x[2], NULL))) AS first_ns
    FROM raw
)
FROM span_rows('c')
