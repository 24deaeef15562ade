-- format: cloudflare_ai_gateway
-- title: Cloudflare AI Gateway, logs API
-- spec: https://developers.cloudflare.com/api/resources/ai_gateway/subresources/logs/
-- source: GET /accounts/ID/ai-gateway/gateways/GATEWAY/logs?per_page=50&page=N; one answer a file, one answer a line, or the rows of result one a line
-- input: json
-- detect: result|tokens_in, success, /"tokens_in"/, /"duration"/
-- clock: created_at, UTC; whether it is the start is not said
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_no, cause, turn_id, model, route, provider, segment, observer, arrival_ns, e2e_ns, resolution_ns, prompt_tokens, completion_tokens, status,
--   http_status, error_kind, cache_hit, streamed, cost, currency, weight
-- hint: there is no first token and no link between the steps of one request in this log; measure TTFT at the client
-- traps: step > 0 is a fallback, and the steps of one request have ids of their own ; metadata is JSON in a string ; when the log store is full, rows are
--   no longer saved: a gap is no silence ; Logpush encrypts metadata and bodies ; duration is read as ms ; zero tokens of a failure are unset
WITH d AS (
    SELECT line, record, unnest(CASE WHEN json_type(j, '$.result') = 'ARRAY' AND json_array_length(j, '$.result') > 0 THEN CAST(json_extract(j, '$.result') AS JSON[]) ELSE [CAST(j AS JSON)] END) AS r,
           json_type(j, '$.result') = 'ARRAY' AND json_array_length(j, '$.result') = 0 AS empty
    FROM raw
), x AS (
    SELECT line, record, empty, from_json(r, '{
        "id": "VARCHAR", "created_at": "VARCHAR", "provider": "VARCHAR", "model": "VARCHAR", "path": "VARCHAR", "duration": "VARCHAR", "success": "VARCHAR", "status_code": "VARCHAR",
        "cached": "VARCHAR", "tokens_in": "VARCHAR", "tokens_out": "VARCHAR", "cost": "VARCHAR", "metadata": "VARCHAR", "response_content_type": "VARCHAR", "step": "VARCHAR"}') AS v
    FROM d
), t AS (
    SELECT line, record, v, from_json(CASE WHEN json_valid(v.metadata) AND v.metadata[1] = '{' THEN v.metadata END,
               '{"session_id": "VARCHAR", "trace_id": "VARCHAR", "tier": "VARCHAR", "tenant": "VARCHAR", "user_id": "VARCHAR"}') AS m,
           CASE WHEN TRY_CAST(v.created_at AS DOUBLE) IS NOT NULL THEN epoch_by_size_ns(v.created_at) ELSE iso_in_ns(v.created_at, NULL) END AS start_ns,
           ms_ns(v.duration) AS total_ns, TRY_CAST(v.status_code AS INTEGER) AS code,
           CASE WHEN to_bool(v.success) = false AND coalesce(http_class(TRY_CAST(v.status_code AS INTEGER)), 'ok') = 'ok' THEN 'error'
                ELSE coalesce(http_class(TRY_CAST(v.status_code AS INTEGER)), CASE WHEN to_bool(v.success) THEN 'ok' END) END AS state,
           CASE WHEN empty OR v.created_at IS NULL AND v.duration IS NULL THEN 'no_request_field' END AS other
    FROM x
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       to_text(v.id) AS request_id,
       TRY_CAST(to_count(v.step) AS INTEGER) AS attempt_no,
       CASE WHEN to_count(v.step) > 0 THEN 'retry' WHEN to_count(v.step) = 0 THEN 'primary' END AS cause,
       coalesce(to_text(m.session_id), to_text(m.trace_id)) AS turn_id,
       to_text(v.model) AS model,
       to_text(v.path) AS route,
       to_text(v.provider) AS provider,
       coalesce(to_text(m.tier), to_text(m.tenant), to_text(m.user_id)) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN state = 'ok' OR to_count(v.tokens_in) > 0 THEN to_count(v.tokens_in) END AS prompt_tokens,
       CASE WHEN state = 'ok' OR to_count(v.tokens_out) > 0 THEN to_count(v.tokens_out) END AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN CASE WHEN code < 400 THEN 'upstream' ELSE coalesce(http_kind(code), 'upstream') END END AS error_kind,
       to_bool(v.cached) AS cache_hit,
       CASE WHEN v.response_content_type LIKE 'text/event-stream%' THEN true WHEN present(v.response_content_type) IS NOT NULL THEN false END AS streamed,
       to_money(v.cost) AS cost,
       CASE WHEN v.cost IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM t
