-- format: litellm_otel
-- title: LiteLLM proxy, spans of the otel callback, OTLP JSON
-- spec: https://docs.litellm.ai/docs/observability/opentelemetry_integration
-- source: litellm_settings callbacks: ["otel"] with OTEL_EXPORTER and OTEL_ENDPOINT set, and a collector with the file exporter (format json)
-- input: json
-- detect: resourceSpans|resource_spans, /"name": ?"litellm(_request)?"|litellm\.(proxy|call_id|model_group)|raw_gen_ai_request/, !/mlflow\.spanType/
-- clock: wall clock of the proxy
-- resolution: 1us
-- observer: gateway
-- observes: request_id, attempt_id, parent_id, turn_id, replica, pool, model, route, provider, segment, observer, arrival_ns, e2e_ns, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status, error_kind, streamed, tools_offered, tool_names,
--   cost, currency, weight
-- hint: the spans know neither the first token nor the replica of most calls: prefer the payload of generic_api or s3_v2 (litellm_payload)
-- traps: the attributes of the call stand on a span of their own, on that of the endpoint or on that of the server, and nowhere where the callback
--   came after its end: then only model, stream, tools and tokens are left ; the span of the server holds waits and retries of the gateway, so failed
--   attempts are inside its time ; raw_gen_ai_request is the call of the engine, as Python text, and is missing for failures ; ConnectionError on a server
--   span that said 200 is a caller who left ; the trace id may be a whole session: the request is litellm.call_id, else the span ; the first token is nowhere
WITH a AS (
    SELECT line, record, coalesce(resource_span->'$.scopeSpans', resource_span->'$.scope_spans') AS scopes
    FROM (SELECT line, record, unnest(TRY_CAST(coalesce(j->'$.resourceSpans', j->'$.resource_spans') AS JSON[])) AS resource_span FROM raw)
), b AS (
    SELECT line, record, unnest(TRY_CAST(scope->'$.spans' AS JSON[])) AS span
    FROM (SELECT line, record, unnest(TRY_CAST(scopes AS JSON[])) AS scope FROM a)
), c AS (
    SELECT line, record, span, otlp_attrs(span->'$.attributes') AS attrs,
           otlp_id(coalesce(span->>'$.traceId', span->>'$.trace_id')) AS trace_id, otlp_id(coalesce(span->>'$.spanId', span->>'$.span_id')) AS span_id,
           otlp_id(coalesce(span->>'$.parentSpanId', span->>'$.parent_span_id')) AS parent_id, span->>'$.name' AS name,
           upper(span->>'$.kind') IN ('2', 'SPAN_KIND_SERVER') AS served,
           ns_ns(coalesce(span->>'$.startTimeUnixNano', span->>'$.start_time_unix_nano')) AS start_ns,
           nullif(ns_ns(coalesce(span->>'$.endTimeUnixNano', span->>'$.end_time_unix_nano')), 0) AS end_ns,
           coalesce(upper(span->>'$.status.code') IN ('2', 'STATUS_CODE_ERROR', 'ERROR'), false) AS bad
    FROM b
), d AS MATERIALIZED (
    SELECT * EXCLUDE (attrs, span), span_map(list_transform(attrs, lambda x: x.key), list_transform(attrs, lambda x: x.text)) AS m FROM c
), e AS MATERIALIZED (
    SELECT *, CASE WHEN name = 'raw_gen_ai_request' THEN 'raw'
                   WHEN (served OR name = 'Received Proxy Server Request' AND parent_id IS NULL)
                        AND regexp_matches(m['url.path'], '/(completions|messages|responses|embeddings)$|:(stream)?[gG]enerateContent$') THEN 'server'
                   WHEN m['litellm.call_id'] IS NOT NULL OR m['gen_ai.request.model'] IS NOT NULL THEN 'call' ELSE 'other' END AS role
    FROM d
), f AS (
    SELECT * FROM e WHERE role IN ('server', 'call') AND NOT EXISTS (FROM e p WHERE p.role = 'server' AND p.trace_id = e.trace_id AND p.span_id = e.parent_id)
), inside AS (
    -- spans below a request that tell of its call; those of raw_gen_ai_request under names that hold the provider, as Python text
    SELECT s.trace_id, s.role, s.m, s.start_ns, s.parent_id, p.parent_id AS above
    FROM e s LEFT JOIN e p ON p.trace_id = s.trace_id AND p.span_id = s.parent_id AND p.role = 'call' WHERE s.role IN ('raw', 'call')
), told AS MATERIALIZED (
    SELECT f.trace_id, f.span_id, arg_max(i.m, i.start_ns) FILTER (i.role = 'call') AS call, arg_max(i.m, i.start_ns) FILTER (i.role = 'raw') AS raw
    FROM f JOIN inside i ON i.trace_id = f.trace_id AND (i.parent_id = f.span_id OR i.above = f.span_id) GROUP BY ALL
), g AS MATERIALIZED (
    SELECT f.* EXCLUDE (m), m AS own, CASE WHEN call IS NULL THEN m ELSE map_concat(call, m) END AS m, TRY_CAST(m['http.response.status_code'] AS INTEGER) AS code,
           map_from_entries(list_transform(list_filter(map_entries(raw), lambda x: regexp_matches(x.key, '^llm\.[^.]+\.(model|stream|tools|usage)$')),
                                           lambda x: {'key': regexp_extract(x.key, '[^.]+$'), 'value': x.value})) AS engine
    FROM f LEFT JOIN told USING (trace_id, span_id)
), h AS MATERIALIZED (
    SELECT *, span_fault(start_ns, end_ns) AS fault, valid_json(m['hidden_params']) AS hidden, engine['usage'] AS usage,
           -- an error that the gateway knows of has a message; without one the caller was gone
           CASE WHEN code <> 200 THEN http_class(code) WHEN bad AND own['error.type'] = 'ConnectionError' AND own['error.message'] IS NULL THEN 'censored'
                WHEN bad AND regexp_matches(own['error.type'], '(?i)timeout') THEN 'censored' WHEN bad THEN 'error' ELSE 'ok' END AS state,
           list_sort(list_distinct(list_filter(map_values(map_from_entries(list_filter(map_entries(m), lambda x: x.key LIKE 'llm.request.functions.%.name'))), lambda n: n IS NOT NULL))) AS tools
    FROM g
)
SELECT line, record, CASE WHEN fault IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, fault AS reason,
       coalesce(m['litellm.call_id'], span_id) AS request_id, span_id AS attempt_id, parent_id, trace_id AS turn_id,
       coalesce(to_text(hidden->>'$.model_id'), to_text(hidden->>'$.api_base')) AS replica, m['litellm.model_group'] AS pool,
       coalesce(m['gen_ai.request.model'], engine['model']) AS model, coalesce(m['url.path'], m['metadata.user_api_key_request_route']) AS route,
       m['gen_ai.system'] AS provider, m['metadata.user_api_key_team_alias'] AS segment, 'gateway' AS observer, start_ns AS arrival_ns,
       CASE WHEN fault IS NULL AND NOT (state = 'error' AND end_ns = start_ns) THEN end_ns - start_ns END AS e2e_ns, CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(coalesce(m['gen_ai.usage.input_tokens'], m['gen_ai.usage.prompt_tokens'], nullif(regexp_extract(usage, '''(?:prompt|input)_tokens'': (\d+)', 1), ''))) AS prompt_tokens,
       to_count(coalesce(m['gen_ai.usage.cache_read.input_tokens'], nullif(regexp_extract(coalesce(usage, m['metadata.usage_object']), '''cached_tokens'': (\d+)', 1), ''))) AS cached_tokens,
       to_count(coalesce(m['gen_ai.usage.output_tokens'], m['gen_ai.usage.completion_tokens'], nullif(regexp_extract(usage, '''(?:completion|output)_tokens'': (\d+)', 1), ''))) AS completion_tokens,
       to_count(nullif(regexp_extract(coalesce(usage, m['metadata.usage_object']), '''reasoning_tokens'': (\d+)', 1), '')) AS reasoning_tokens,
       CASE WHEN end_ns IS NULL THEN 'censored' ELSE state END AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN end_ns IS NULL THEN 'unfinished' WHEN state = 'ok' THEN NULL WHEN code <> 200 THEN http_kind(code)
            WHEN state = 'error' THEN 'upstream' WHEN regexp_matches(own['error.type'], '(?i)timeout') THEN 'timeout' ELSE 'client_gone' END AS error_kind,
       coalesce(to_bool(m['llm.is_streaming']), CASE WHEN engine['model'] IS NOT NULL THEN coalesce(to_bool(engine['stream']), false) END) AS streamed,
       CASE WHEN len(tools) > 0 THEN true WHEN engine['tools'] IS NOT NULL THEN engine['tools'] <> '[]'
            WHEN m['litellm.call_id'] IS NOT NULL OR engine['model'] IS NOT NULL THEN false END AS tools_offered,
       nullif(array_to_string(tools, ','), '') AS tool_names,
       to_money(m['gen_ai.cost.total_cost']) AS cost, CASE WHEN m['gen_ai.cost.total_cost'] IS NOT NULL THEN 'USD' END AS currency, CAST(1 AS DOUBLE) AS weight
FROM h
UNION ALL BY NAME
SELECT raw.line, raw.record, 'not_request' AS kind, 'other_span' AS reason
FROM raw WHERE NOT EXISTS (FROM h WHERE h.line = raw.line AND h.record = raw.record)
