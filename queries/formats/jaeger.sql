-- format: jaeger
-- title: Jaeger UI JSON
-- spec: jaegertracing/jaeger internal/uimodel
-- source: GET /api/traces?service=NAME&limit=N of the Jaeger query service, or the download button of the UI
-- input: json
-- detect: traceID, spans, !rootTraceName
-- clock: wall clock of the process that made the call
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, status, error_kind, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: raise limit: the default gives 20 traces. Queue and prefill are not in it: read the engines' spans too, with --join
-- traps: startTime and duration are microseconds ; process ids (p1, p2) are per trace ; the parent is in references, CHILD_OF ; events are
--   logs, their name is a field called event or name ; a failed span has the tag error ; traces of services without a model call hold no request
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH b AS (
    SELECT line, record, unnest(CASE WHEN json_type(j->'$.spans') = 'ARRAY' THEN CAST(j->'$.spans' AS JSON[]) END) AS span FROM raw
), c AS MATERIALIZED (
    SELECT line, record, span->>'$.operationName' AS name,
           list_transform(TRY_CAST(span->'$.tags' AS JSON[]), lambda t: {'key': t->>'$.key', 'text': t->>'$.value'}) AS attrs,
           lower(span->>'$.traceID') AS trace_id, lower(span->>'$.spanID') AS span_id,
           coalesce(list_filter(list_transform(TRY_CAST(span->'$.references' AS JSON[]), lambda x: CASE WHEN x->>'$.refType' = 'CHILD_OF' THEN lower(x->>'$.spanID') END), lambda x: x IS NOT NULL)[1],
                    lower(nullif(span->>'$.parentSpanID', ''))) AS parent_id,
           us_ns(span->>'$.startTime') AS start_ns, TRY(us_ns(span->>'$.startTime') + us_ns(span->>'$.duration')) AS end_ns,
           contains(span->>'$.tags', '"error"') AND len(list_filter(TRY_CAST(span->'$.tags' AS JSON[]), lambda t: t->>'$.key' = 'error' AND to_bool(t->>'$.value')
                                                                     OR t->>'$.key' = 'otel.status_code' AND t->>'$.value' = 'ERROR')) > 0 AS failed,
           list_filter(list_transform(TRY_CAST(span->'$.tags' AS JSON[]), lambda t: CASE WHEN t->>'$.key' = 'otel.status_description' THEN t->>'$.value' END), lambda x: x IS NOT NULL)[1] AS message,
           list_min(list_transform(list_filter(TRY_CAST(span->'$.logs' AS JSON[]),
               lambda l: regexp_matches(l->>'$.fields', 'First Token Stream Event|content\.completion\.chunk|mlflow\.chunk\.item\.0"')),
               lambda l: us_ns(l->>'$.timestamp'))) AS first_ns
    FROM b
)
FROM span_rows('c')
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_span' AS reason
FROM raw WHERE NOT EXISTS (FROM c WHERE c.line = raw.line AND c.record = raw.record)
