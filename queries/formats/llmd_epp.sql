-- format: llmd_epp
-- title: llm-d router (EPP) spans, OTLP JSON
-- spec: llm-d/llm-d-router; OpenTelemetry protocol, JSON encoding
-- source: EPP flag --tracing with OTEL_TRACES_EXPORTER=otlp and OTEL_TRACES_SAMPLER_ARG=1; a collector with the file exporter (format json)
-- input: json
-- detect: resourceSpans|resource_spans|batches|startTimeUnixNano|start_time_unix_nano, /"gateway\.request(_orchestration)?"|"pick_endpoints"/
-- clock: wall clock of the router
-- resolution: 1us
-- observer: gateway
-- observes: request_id, attempt_id, turn_id, replica, model, observer, arrival_ns, e2e_ns, queue_ns, queue_basis, resolution_ns, status, error_kind
-- one_row: part
-- hint: the default sampler keeps one trace in ten: OTEL_TRACES_SAMPLER_ARG=1. Tokens and first token are not in it: add the engines' spans. The default exporter
--   prints to the console in no OTLP form
-- traps: the chosen endpoint is the first of top_endpoints, which stand in the span of the picker, below the request ; the wait for admission is inside
--   orchestration, before the scheduler's first span ; spans of one request may stand lines apart ; one trace may hold several requests
WITH RECURSIVE r AS (
    SELECT line, record, j, coalesce(j->'$.resourceSpans', j->'$.resource_spans', j->'$.batches') AS resource_spans FROM raw
), a AS (
    SELECT line, record, resource_span->'$.resource' AS resource,
           coalesce(resource_span->'$.scopeSpans', resource_span->'$.scope_spans', resource_span->'$.instrumentationLibrarySpans') AS scopes
    FROM (SELECT line, record, unnest(TRY_CAST(resource_spans AS JSON[])) AS resource_span FROM r WHERE resource_spans IS NOT NULL)
), b AS (
    SELECT line, record, resource, unnest(TRY_CAST(scope->'$.spans' AS JSON[])) AS span
    FROM (SELECT line, record, resource, unnest(TRY_CAST(scopes AS JSON[])) AS scope FROM a)
    UNION ALL
    SELECT line, record, j->'$.resource', j FROM r WHERE resource_spans IS NULL
), s AS MATERIALIZED (
    SELECT line, record, span->>'$.name' AS name, otlp_id(coalesce(span->>'$.traceId', span->>'$.trace_id')) AS trace_id,
           otlp_id(coalesce(span->>'$.spanId', span->>'$.span_id')) AS span_id, otlp_id(coalesce(span->>'$.parentSpanId', span->>'$.parent_span_id')) AS parent_id,
           ns_ns(coalesce(span->>'$.startTimeUnixNano', span->>'$.start_time_unix_nano')) AS start_ns,
           ns_ns(coalesce(span->>'$.endTimeUnixNano', span->>'$.end_time_unix_nano')) AS end_ns,
           coalesce((span->>'$.status.code') IN ('2', 'STATUS_CODE_ERROR', 'ERROR'), false) AS failed,
           otlp_attrs(span->'$.attributes') AS attrs, resource
    FROM b
), root AS (
    SELECT * FROM s WHERE name = 'gateway.request'
), tree AS (
    SELECT trace_id, span_id AS root_id, span_id, 0 AS depth FROM root WHERE span_id IS NOT NULL
    UNION ALL
    SELECT t.trace_id, t.root_id, s.span_id, t.depth + 1
    FROM tree t JOIN s ON s.trace_id = t.trace_id AND s.parent_id = t.span_id WHERE t.depth < 5 AND s.span_id <> t.span_id
), child AS (
    SELECT DISTINCT t.root_id, t.trace_id, s.* EXCLUDE (trace_id) FROM tree t JOIN s ON s.trace_id = t.trace_id AND s.span_id = t.span_id
), seen AS (
    SELECT root_id, trace_id, bool_or(failed) AS failed, min(start_ns) FILTER (name = 'gateway.request_orchestration') AS orchestrated,
           min(start_ns) FILTER (name IN ('run_scheduler_profile', 'filter_endpoints', 'llm_d.epp.scoring', 'pick_endpoints')) AS scheduled,
           arg_max(otlp_attr(attrs, 'llm_d.epp.picker.top_endpoints'), start_ns) FILTER (name = 'pick_endpoints') AS endpoints,
           max(coalesce(otlp_attr(attrs, 'target_model'), otlp_attr(attrs, 'gen_ai.request.model'))) AS model, max(otlp_attr(attrs, 'gen_ai.request.id')) AS id
    FROM child GROUP BY ALL
), k AS (
    SELECT root.*, coalesce(seen.failed, root.failed) AS any_failed, TRY(scheduled - orchestrated) AS queue, endpoints, seen.model, seen.id, TRY(end_ns - start_ns) AS e2e
    FROM root LEFT JOIN seen ON seen.root_id = root.span_id AND seen.trace_id = root.trace_id
), d AS (
    SELECT *, CASE WHEN start_ns IS NULL OR start_ns <= 0 THEN 'bad_time' WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration'
                   WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM k
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       to_text(id) AS request_id, span_id AS attempt_id, trace_id AS turn_id,
       CASE WHEN json_valid(endpoints) THEN to_text(coalesce(json_extract_string(endpoints, '$[0].stringValue'), json_extract_string(endpoints, '$[0].string_value'), json_extract_string(endpoints, '$[0]'))) ELSE to_text(endpoints) END AS replica,
       to_text(model) AS model, 'gateway' AS observer, start_ns AS arrival_ns, e2e AS e2e_ns,
       CASE WHEN queue BETWEEN 0 AND e2e THEN queue END AS queue_ns, CASE WHEN queue BETWEEN 0 AND e2e THEN 'derived' END AS queue_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       CASE WHEN any_failed THEN 'error' ELSE 'ok' END AS status, CASE WHEN any_failed THEN 'upstream' END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'other_span' AS reason FROM r WHERE NOT EXISTS (FROM root WHERE root.line = r.line AND root.record = r.record)
