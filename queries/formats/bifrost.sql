-- format: bifrost
-- title: Bifrost log store: logs and mcp_tool_logs
-- spec: https://github.com/maximhq/bifrost (framework/logstore/tables.go)
-- source: GET /api/logs, or rows of the tables logs and mcp_tool_logs as JSON, CSV or Parquet
-- input: json
-- detect: fallback_index|llm_request_id, latency, timestamp, status
-- clock: timestamp, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_id, attempt_no, cause, turn_id, replica, model, route, provider, segment, observer, arrival_ns, e2e_ns, resolution_ns, prompt_tokens, cached_tokens, completion_tokens,
--   status, http_status, error_kind, cache_hit, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: no first token is stored; the tool logs give tool wait if the logs of the model calls are there too
-- traps: a fallback is a row of its own that names its parent ; rows in status processing are not finished ; attempt_trail has no times, and the length holds
--   all retries ; cost includes the cache look-up ; JSON columns are text in the database
-- notes: holds_failed_attempts = rows whose length holds failed attempts too
WITH x AS (
    SELECT line, record, from_json(j, '{
        "id": "VARCHAR", "parent_request_id": "VARCHAR", "llm_request_id": "VARCHAR", "timestamp": "VARCHAR", "object": "VARCHAR", "object_type": "VARCHAR", "provider": "VARCHAR", "model": "VARCHAR",
        "number_of_retries": "VARCHAR", "fallback_index": "VARCHAR", "selected_key_id": "VARCHAR", "virtual_key_name": "VARCHAR", "team_id": "VARCHAR", "latency": "VARCHAR", "cost": "VARCHAR", "status": "VARCHAR",
        "stream": "VARCHAR", "token_usage": "VARCHAR", "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR", "cached_read_tokens": "VARCHAR", "cache_debug": "VARCHAR", "error_details": "VARCHAR", "tools": "VARCHAR",
        "attempt_trail": "VARCHAR", "tool_name": "VARCHAR"}') AS v
    FROM raw
), m AS (
    -- JSON columns are text in the database and objects in the API
    SELECT line, record, v,
           from_json(CASE WHEN json_valid(v.token_usage) THEN v.token_usage END, '{"prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR", "prompt_tokens_details": {"cached_read_tokens": "VARCHAR", "cached_tokens": "VARCHAR"}}') AS usage,
           from_json(CASE WHEN json_valid(v.error_details) THEN v.error_details END, '{"status_code": "VARCHAR", "error": {"type": "VARCHAR"}}') AS fault,
           from_json(CASE WHEN json_valid(v.cache_debug) THEN v.cache_debug END, '{"cache_hit": "VARCHAR"}') AS cache,
           from_json(CASE WHEN json_valid(v.attempt_trail) THEN v.attempt_trail END, '[{"key_id": "VARCHAR"}]') AS trail, tool_list(v.tools) AS tools
    FROM x
), t AS (
    SELECT *, time_ns(present(v."timestamp")) AS start_ns, ms_ns(v.latency) AS total_ns, coalesce(to_count(v.number_of_retries), 0) AS retries, coalesce(to_bool(cache.cache_hit), false) AS hit,
           TRY_CAST(fault.status_code AS INTEGER) AS code,
           CASE WHEN http_class(TRY_CAST(fault.status_code AS INTEGER)) = 'censored' OR fault.error.type ILIKE '%timeout%' THEN 'censored' ELSE word_class(v.status) END AS state,
           CASE WHEN v."timestamp" IS NULL AND v.latency IS NULL THEN 'no_request_field' WHEN v.status = 'processing' THEN 'unfinished'
                WHEN v.tool_name IS NOT NULL AND present(v.llm_request_id) IS NULL THEN 'tool_without_trace' END AS other
    FROM m
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE CASE WHEN v.tool_name IS NOT NULL THEN 'tool' ELSE 'attempt' END END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN is_naive(present(v."timestamp")) THEN 'naive_time' END, CASE WHEN retries > 0 THEN 'holds_failed_attempts' END), '') AS note,
       coalesce(to_text(v.parent_request_id), to_text(v.id)) AS request_id,
       to_text(v.id) AS attempt_id,
       CASE WHEN retries = 0 THEN TRY_CAST(to_count(v.fallback_index) AS INTEGER) END AS attempt_no,
       CASE WHEN to_count(v.fallback_index) > 0 OR retries > 0 THEN 'retry' ELSE 'primary' END AS cause,
       coalesce(to_text(v.llm_request_id), to_text(v.parent_request_id), to_text(v.id)) AS turn_id,
       CASE WHEN NOT hit THEN coalesce(to_text(trail[-1].key_id), to_text(v.selected_key_id)) END AS replica,
       to_text(v.model) AS model,
       coalesce(to_text(v.object), to_text(v.object_type)) AS route,
       to_text(v.provider) AS provider,
       coalesce(to_text(v.team_id), to_text(v.virtual_key_name)) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN state = 'ok' OR coalesce(to_count(usage.prompt_tokens), to_count(v.prompt_tokens)) > 0 THEN coalesce(to_count(usage.prompt_tokens), to_count(v.prompt_tokens)) END AS prompt_tokens,
       CASE WHEN state = 'ok' THEN coalesce(to_count(usage.prompt_tokens_details.cached_read_tokens), to_count(usage.prompt_tokens_details.cached_tokens), to_count(v.cached_read_tokens)) END AS cached_tokens,
       CASE WHEN state = 'ok' OR coalesce(to_count(usage.completion_tokens), to_count(v.completion_tokens)) > 0 THEN coalesce(to_count(usage.completion_tokens), to_count(v.completion_tokens)) END AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN state = 'censored' AND fault.error.type ILIKE '%timeout%' THEN 'timeout' ELSE coalesce(http_kind(code), word_kind(v.status)) END AS error_kind,
       CASE WHEN hit THEN true WHEN state = 'ok' THEN false END AS cache_hit,
       to_bool(v.stream) AS streamed,
       CASE WHEN tools <> '' THEN true END AS tools_offered,
       coalesce(to_text(v.tool_name), nullif(tools, '')) AS tool_names,
       to_money(v.cost) AS cost,
       CASE WHEN v.cost IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM t
