-- format: vllm_otlp
-- title: vLLM spans, OTLP JSON
-- spec: vllm/tracing and vllm/v1/engine/output_processor.py of vLLM; OpenTelemetry protocol, JSON encoding
-- source: vllm serve --otlp-traces-endpoint URL with OTEL_SERVICE_NAME set per engine; a collector with the file exporter (format json)
-- input: json
-- detect: resourceSpans|resource_spans|batches|startTimeUnixNano|start_time_unix_nano, /llm_request/, /gen_ai\.latency\.(e2e|time_in_queue)/, !/sglang/
-- clock: span start is wall clock of the API server; queue, prefill and decode are differences on the engine's monotonic clock
-- resolution: 1us
-- observer: engine
-- observes: request_id, attempt_id, turn_id, replica, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns,
--   prefill_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind, weight
-- join_ids: request_id~^(.+?)(?:#\d+)?$, request_id~^chatcmpl-(.+?)(?:#\d+)?$, request_id~^(cmpl-.+)-\d+(?:#\d+)?$, request_id~^cmpl-(.+)-\d+(?:#\d+)?$, parent_id
-- hint: cancelled requests, the losers of hedging among them, have no span: read the gateway's log too. Cached tokens and the model are
--   not in the span. Set OTEL_SERVICE_NAME per engine, else replicas are told by the instance id, which changes at every start
-- traps: durations are seconds, other versions wrote nanoseconds, so the unit is checked against the span ; a milestone that was never
--   reached gives values as large as the host's uptime, or negative ; TTFT includes queue and front end ; n > 1 and repeated
--   X-Request-Id give several spans with one id ; gen_ai.request.n is always 1 ; two clocks, so queue + prefill + decode is less than
--   e2e by the front end's time ; start-up spans are in the same file ; prompt lists of /v1/completions give one span a prompt
-- notes: unit_ns = durations in nanoseconds, told by the length of the span ; unit_us = durations in microseconds, told by the length of the span ;
--   unit_ms = durations in milliseconds, told by the length of the span
WITH r AS (
    SELECT line, record, j, strpos(CAST(j AS VARCHAR), 'llm_request') > 0 AS has_request FROM raw
), p AS (
    -- one pass a record, in every spelling
    SELECT line, record, j, from_json(j, '{
        "resourceSpans": [{"resource": "JSON", "scopeSpans": [{"spans": ["JSON"]}], "scope_spans": [{"spans": ["JSON"]}], "instrumentationLibrarySpans": [{"spans": ["JSON"]}]}],
        "resource_spans": [{"resource": "JSON", "scopeSpans": [{"spans": ["JSON"]}], "scope_spans": [{"spans": ["JSON"]}], "instrumentationLibrarySpans": [{"spans": ["JSON"]}]}],
        "batches": [{"resource": "JSON", "scopeSpans": [{"spans": ["JSON"]}], "scope_spans": [{"spans": ["JSON"]}], "instrumentationLibrarySpans": [{"spans": ["JSON"]}]}]}') AS v
    FROM r WHERE has_request
), a AS (
    SELECT line, record, s.resource AS resource, coalesce(s.scopeSpans, s.scope_spans, s.instrumentationLibrarySpans) AS scopes
    FROM (SELECT line, record, unnest(coalesce(v.resourceSpans, v.resource_spans, v.batches)) AS s FROM p)
), b AS (
    SELECT line, record, resource, unnest(scope.spans) AS span FROM (SELECT line, record, resource, unnest(scopes) AS scope FROM a)
    UNION ALL
    -- a span on its own, as some stores export it
    SELECT line, record, j->'$.resource', CAST(j AS JSON) FROM p WHERE coalesce(v.resourceSpans, v.resource_spans, v.batches) IS NULL
), f AS (
    SELECT line, record, resource, from_json(span, '{"name": "VARCHAR", "traceId": "VARCHAR", "trace_id": "VARCHAR", "spanId": "VARCHAR", "span_id": "VARCHAR", "parentSpanId": "VARCHAR", "parent_span_id": "VARCHAR",
        "startTimeUnixNano": "VARCHAR", "start_time_unix_nano": "VARCHAR", "endTimeUnixNano": "VARCHAR", "end_time_unix_nano": "VARCHAR",
        "status": {"code": "VARCHAR"}, "attributes": "JSON"}') AS span
    FROM b
), c AS (
    SELECT line, record, otlp_attrs(span.attributes) AS attrs,
           otlp_attrs(coalesce(resource->'$.attributes', resource)) AS res,
           otlp_id(coalesce(span.traceId, span.trace_id)) AS trace_id,
           otlp_id(coalesce(span.spanId, span.span_id)) AS span_id,
           otlp_id(coalesce(span.parentSpanId, span.parent_span_id)) AS parent_id,
           ns_ns(coalesce(span.startTimeUnixNano, span.start_time_unix_nano)) AS start_ns,
           ns_ns(coalesce(span.endTimeUnixNano, span.end_time_unix_nano)) AS end_ns,
           span.status.code AS status_code
    FROM f WHERE span.name = 'llm_request'
), d AS (
    SELECT * EXCLUDE (attrs, res), TRY(end_ns - start_ns) AS span_ns,
           otlp_attr(attrs, 'gen_ai.latency.e2e') AS e2e_s,
           otlp_attr(attrs, 'gen_ai.latency.time_to_first_token') AS ttft_s,
           otlp_attr(attrs, 'gen_ai.latency.time_in_queue') AS queue_s,
           otlp_attr(attrs, 'gen_ai.latency.time_in_model_prefill') AS prefill_s,
           otlp_attr(attrs, 'gen_ai.latency.time_in_model_decode') AS decode_s,
           to_count(coalesce(otlp_attr(attrs, 'gen_ai.usage.prompt_tokens'), otlp_attr(attrs, 'gen_ai.usage.input_tokens'))) AS prompt_tokens,
           to_count(coalesce(otlp_attr(attrs, 'gen_ai.usage.completion_tokens'), otlp_attr(attrs, 'gen_ai.usage.output_tokens'))) AS completion_tokens,
           to_text(otlp_attr(attrs, 'gen_ai.request.id')) AS id,
           coalesce(to_text(otlp_attr(attrs, 'gen_ai.response.model')), to_text(otlp_attr(attrs, 'gen_ai.request.model'))) AS model,
           otlp_attr(res, 'service.name') AS service, otlp_attr(res, 'service.instance.id') AS instance,
           otlp_attr(res, 'k8s.pod.name') AS pod, otlp_attr(res, 'host.name') AS host, otlp_attr(res, 'vllm.process_id') AS process
    FROM c
), u AS (
    -- the unit, span by span: the one in which e2e agrees with the span's own length (which is a little longer)
    SELECT *, CASE WHEN e2e_s IS NULL OR span_ns IS NULL OR span_ns <= 0 THEN 's'
                   WHEN abs(s_ns(e2e_s) - span_ns) <= greatest(250000000, span_ns // 5) THEN 's'
                   WHEN abs(ns_ns(e2e_s) - span_ns) <= greatest(1000000, span_ns // 5) THEN 'ns'
                   WHEN abs(ms_ns(e2e_s) - span_ns) <= greatest(1000000, span_ns // 5) THEN 'ms'
                   WHEN abs(us_ns(e2e_s) - span_ns) <= greatest(1000000, span_ns // 5) THEN 'us' END AS unit
    FROM d
), v AS (
    SELECT * EXCLUDE (queue_s, prefill_s, decode_s),
           CASE WHEN e2e_s IS NULL THEN span_ns ELSE CASE unit WHEN 's' THEN s_ns(e2e_s) WHEN 'ns' THEN ns_ns(e2e_s) WHEN 'ms' THEN ms_ns(e2e_s) WHEN 'us' THEN us_ns(e2e_s) END END AS e2e_ns,
           CASE unit WHEN 's' THEN s_ns(ttft_s) WHEN 'ns' THEN ns_ns(ttft_s) WHEN 'ms' THEN ms_ns(ttft_s) WHEN 'us' THEN us_ns(ttft_s) END AS ttft_raw,
           CASE unit WHEN 's' THEN s_ns(queue_s) WHEN 'ns' THEN ns_ns(queue_s) WHEN 'ms' THEN ms_ns(queue_s) WHEN 'us' THEN us_ns(queue_s) END AS queue_raw,
           CASE unit WHEN 's' THEN s_ns(prefill_s) WHEN 'ns' THEN ns_ns(prefill_s) WHEN 'ms' THEN ms_ns(prefill_s) WHEN 'us' THEN us_ns(prefill_s) END AS prefill_raw,
           CASE unit WHEN 's' THEN s_ns(decode_s) WHEN 'ns' THEN ns_ns(decode_s) WHEN 'ms' THEN ms_ns(decode_s) WHEN 'us' THEN us_ns(decode_s) END AS decode_raw,
           queue_s, prefill_s, decode_s,
           -- n > 1 gives one span a choice with one id and one start: they are not copies of each other
           row_number() OVER (PARTITION BY line, record, id, start_ns, service, instance, process ORDER BY span_id) AS choice
    FROM u
), w AS (
    SELECT *,
           -- engine milestones are on another clock than e2e; beyond this slack a milestone was never reached
           CASE WHEN queue_raw BETWEEN 0 AND e2e_ns + greatest(50000000, e2e_ns // 20) THEN queue_raw END AS queue_ns,
           CASE WHEN prefill_raw BETWEEN 0 AND e2e_ns + greatest(50000000, e2e_ns // 20) THEN prefill_raw END AS prefill_ns,
           CASE WHEN decode_raw BETWEEN 0 AND e2e_ns + greatest(50000000, e2e_ns // 20) THEN decode_raw END AS decode_ns,
           CASE WHEN ttft_raw > 0 AND ttft_raw <= e2e_ns AND coalesce(completion_tokens, 1) > 0
                     AND NOT (ttft_raw = e2e_ns AND completion_tokens > 1) THEN ttft_raw END AS ttft_ns
    FROM v
)
SELECT line, record,
       CASE WHEN start_ns IS NULL OR start_ns <= 0 OR unit IS NULL OR e2e_ns IS NULL OR e2e_ns < 0 OR e2e_ns > 86400000000000
            THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL OR start_ns <= 0 THEN 'bad_time'
            WHEN unit IS NULL THEN 'unit_unclear'
            WHEN e2e_ns IS NULL THEN 'no_duration'
            WHEN e2e_ns < 0 THEN 'negative_duration'
            WHEN e2e_ns > 86400000000000 THEN 'duration_out_of_range' END AS reason,
       nullif(concat_ws(',',
           CASE WHEN unit IN ('ns', 'ms', 'us') THEN 'unit_' || unit END,
           CASE WHEN (queue_s IS NOT NULL AND queue_ns IS NULL) OR (prefill_s IS NOT NULL AND prefill_ns IS NULL)
                     OR (decode_s IS NOT NULL AND decode_ns IS NULL) THEN 'component_out_of_range' END,
           CASE WHEN ttft_raw < 0 THEN 'clock_skew'
                WHEN ttft_raw > e2e_ns THEN 'ttft_beyond_e2e'
                WHEN ttft_raw = e2e_ns AND completion_tokens > 1 THEN 'ttft_equals_e2e' END), '') AS note,
       CASE WHEN choice > 1 THEN id || '#' || choice ELSE id END AS request_id,
       span_id AS attempt_id,
       parent_id,
       trace_id AS turn_id,
       coalesce(to_text(pod), CASE WHEN NOT regexp_full_match(instance, '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}') THEN to_text(instance) END,
                CASE WHEN service NOT LIKE 'unknown_service%' THEN to_text(service) END, to_text(instance), to_text(host), to_text(process)) AS replica,
       model,
       'engine' AS observer,
       start_ns AS arrival_ns,
       e2e_ns, ttft_ns,
       CASE WHEN ttft_ns IS NOT NULL THEN 'engine' END AS ttft_basis,
       queue_ns, CASE WHEN queue_ns IS NOT NULL THEN 'measured' END AS queue_basis,
       prefill_ns, CASE WHEN prefill_ns IS NOT NULL THEN 'measured' END AS prefill_basis,
       decode_ns, CASE WHEN decode_ns IS NOT NULL THEN 'measured' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       prompt_tokens, completion_tokens,
       -- a span of no token was aborted by the engine
       CASE WHEN status_code IN ('2', 'STATUS_CODE_ERROR', 'ERROR') THEN 'error' WHEN completion_tokens = 0 THEN 'censored' ELSE 'ok' END AS status,
       CASE WHEN status_code IN ('2', 'STATUS_CODE_ERROR', 'ERROR') THEN 'upstream' WHEN completion_tokens = 0 THEN 'aborted' END AS error_kind,
       CAST(1 AS DOUBLE) AS weight
FROM w
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'other_span' AS reason FROM r WHERE NOT has_request
UNION ALL BY NAME
SELECT r.line, r.record, 'not_request' AS kind, 'other_span' AS reason
FROM r WHERE has_request AND NOT EXISTS (FROM w WHERE w.line = r.line AND w.record = r.record)
