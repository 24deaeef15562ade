-- format: sglang_otlp
-- title: SGLang spans, OTLP JSON
-- spec: sglang/srt/observability/trace.py and req_time_stats.py; OpenTelemetry protocol, JSON encoding
-- source: sglang serve --enable-trace --otlp-traces-endpoint HOST:4317; a collector with the file exporter (format json)
-- input: json
-- detect: resourceSpans|resource_spans|batches|startTimeUnixNano|start_time_unix_nano, /sglang::request|"prefill_waiting"/
-- clock: wall clock, converted from the server's performance counter
-- resolution: 1us
-- observer: engine
-- observes: request_id, attempt_id, turn_id, replica, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns,
--   prefill_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, status, error_kind
-- one_row: part
-- hint: SGLANG_TRACE_LEVEL of 1 at least, else there is no queue. The host is the replica
-- traps: time_in_model_prefill includes the queue here though vLLM's attribute of that name does not, so the child spans are used ; one request is a tree: root, a
--   span a process, phases below ; each tensor-parallel rank repeats the phases: the longest counts ; a retracted request waits more than once ;
--   decode_loop is a span a step ; finish_reasons is text that holds a list ; children may be exported lines apart from their root
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
    WHERE (span->>'$.name') IS DISTINCT FROM 'decode_loop' AND (span->>'$.name') IS DISTINCT FROM 'chunked_prefill'
), root AS (
    SELECT * FROM s WHERE otlp_attr(attrs, 'module') = 'sglang::request' AND regexp_matches(name, '(^| )Req ')
), tree AS (
    SELECT trace_id, span_id AS root_id, span_id, 0 AS depth FROM root WHERE span_id IS NOT NULL
    UNION ALL
    SELECT t.trace_id, t.root_id, s.span_id, t.depth + 1
    FROM tree t JOIN s ON s.trace_id = t.trace_id AND s.parent_id = t.span_id WHERE t.depth < 4 AND s.span_id <> t.span_id
), child AS (
    SELECT DISTINCT t.root_id, t.trace_id, s.* EXCLUDE (trace_id) FROM tree t JOIN s ON s.trace_id = t.trace_id AND s.span_id = t.span_id
), thread AS (
    SELECT root_id, trace_id, parent_id, sum(TRY(end_ns - start_ns)) FILTER (name = 'prefill_waiting') AS queue,
           sum(TRY(end_ns - start_ns)) FILTER (name = 'prefill_forward') AS prefill, sum(TRY(end_ns - start_ns)) FILTER (name = 'decode_forward') AS decode
    FROM child GROUP BY ALL
), part AS (
    SELECT root_id, trace_id, CAST(max(queue) AS BIGINT) AS queue, CAST(max(prefill) AS BIGINT) AS prefill, CAST(max(decode) AS BIGINT) AS decode FROM thread GROUP BY ALL
), seen AS (
    SELECT root_id, trace_id, bool_or(failed) AS failed, max(otlp_attr(attrs, 'gen_ai.response.finish_reasons')) AS finish,
           min(otlp_attr(attrs, 'host_id')) FILTER (otlp_attr(attrs, 'thread_label') = 'Scheduler') AS host,
           min(otlp_attr(attrs, 'dp_rank')) FILTER (otlp_attr(attrs, 'thread_label') = 'Scheduler') AS dp
    FROM child GROUP BY ALL
), k AS (
    SELECT root.*, part.queue, part.prefill, part.decode, coalesce(seen.failed, root.failed) AS any_failed, seen.finish, seen.host, seen.dp, TRY(end_ns - start_ns) AS e2e,
           s_ns(otlp_attr(attrs, 'gen_ai.latency.time_to_first_token')) AS ttft, s_ns(otlp_attr(attrs, 'gen_ai.latency.time_in_model_decode')) AS told_decode,
           otlp_attr(otlp_attrs(coalesce(resource->'$.attributes', resource)), 'service.name') AS service
    FROM root LEFT JOIN part ON part.root_id = root.span_id AND part.trace_id = root.trace_id LEFT JOIN seen ON seen.root_id = root.span_id AND seen.trace_id = root.trace_id
), d AS (
    SELECT *, coalesce(decode, told_decode) AS decode_raw, coalesce(contains(finish, 'abort'), false) AS aborted,
           CASE WHEN start_ns IS NULL OR start_ns <= 0 THEN 'bad_time' WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration'
                WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM k
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       nullif(concat_ws(',', ttft_fault(ttft, e2e), coalesce(part_fault(queue, e2e), part_fault(prefill, e2e), part_fault(decode_raw, e2e))), '') AS note,
       coalesce(to_text(otlp_attr(attrs, 'gen_ai.request.id')), to_text(otlp_attr(attrs, 'rid'))) AS request_id, span_id AS attempt_id, trace_id AS turn_id,
       coalesce(to_text(host) || coalesce('/dp' || to_text(dp), ''), to_text(service)) AS replica,
       to_text(otlp_attr(attrs, 'gen_ai.response.model')) AS model, 'engine' AS observer, start_ns AS arrival_ns, e2e AS e2e_ns,
       CASE WHEN ttft > 0 AND ttft <= e2e THEN ttft END AS ttft_ns, CASE WHEN ttft > 0 AND ttft <= e2e THEN 'engine' END AS ttft_basis,
       CASE WHEN queue BETWEEN 0 AND e2e THEN queue END AS queue_ns, CASE WHEN queue BETWEEN 0 AND e2e THEN 'measured' END AS queue_basis,
       CASE WHEN prefill BETWEEN 0 AND e2e THEN prefill END AS prefill_ns, CASE WHEN prefill BETWEEN 0 AND e2e THEN 'measured' END AS prefill_basis,
       CASE WHEN decode_raw BETWEEN 0 AND e2e THEN decode_raw END AS decode_ns, CASE WHEN decode_raw BETWEEN 0 AND e2e THEN 'measured' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(otlp_attr(attrs, 'gen_ai.usage.prompt_tokens')) AS prompt_tokens, to_count(otlp_attr(attrs, 'gen_ai.usage.cached_tokens')) AS cached_tokens,
       to_count(otlp_attr(attrs, 'gen_ai.usage.completion_tokens')) AS completion_tokens,
       CASE WHEN aborted THEN 'censored' WHEN any_failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN aborted THEN 'aborted' WHEN any_failed THEN 'upstream' END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'other_span' AS reason FROM r WHERE NOT EXISTS (FROM root WHERE root.line = r.line AND root.record = r.record)
