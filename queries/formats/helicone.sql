-- format: helicone
-- title: Helicone, table request_response_rmt or REST request query
-- spec: https://github.com/Helicone/helicone (clickhouse/migrations, request_response_rmt)
-- source: SELECT * FROM request_response_rmt FINAL FORMAT JSONEachRow, or POST /v1/request/query
-- input: json
-- detect: request_created_at, latency|delay_ms, request_id
-- clock: request_created_at, to 1 ms, naive UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_id, turn_id, replica, model, route, provider, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens,
--   status, http_status, error_kind, cache_hit, cost, currency, weight
-- hint: select with FINAL, else a request may be there twice; retries are rows without a link: send Helicone-Session-Id
-- traps: the table is a ReplacingMergeTree: without FINAL old versions of a row are in the dump ; cost is an integer, dollars times 1e9 ; a cache_reference_id of
--   zeros means not cached ; cached rows may carry the latency of the first answer ; a first token of 0 or null is unknown ; naive times are UTC
WITH x AS (
    SELECT line, record, from_json(j, '{
        "request_id": "VARCHAR", "response_id": "VARCHAR", "request_created_at": "VARCHAR", "latency": "VARCHAR", "delay_ms": "VARCHAR", "time_to_first_token": "VARCHAR", "status": "VARCHAR", "response_status": "VARCHAR",
        "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR", "prompt_cache_read_tokens": "VARCHAR", "model": "VARCHAR", "request_model": "VARCHAR", "provider": "VARCHAR", "user_id": "VARCHAR", "target_url": "VARCHAR", "cost": "VARCHAR",
        "cache_reference_id": "VARCHAR", "gateway_deployment_target": "VARCHAR", "properties": {"Helicone-Session-Id": "VARCHAR", "tier": "VARCHAR", "tenant": "VARCHAR"}}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.request_created_at, NULL) AS start_ns, coalesce(ms_ns(v.latency), ms_ns(v.delay_ms)) AS total_ns, ms_ns(v.time_to_first_token) AS token_ns,
           nullif(CASE WHEN coalesce(v.status, v.response_status) NOT LIKE '-%' THEN TRY_CAST(coalesce(v.status, v.response_status) AS INTEGER) END, 0) AS code,
           -- negative statuses: the proxy's own, -1 timed out, -3 the caller left
           CASE WHEN coalesce(v.status, v.response_status) IN ('-1', '-3') THEN 'censored' ELSE http_class(TRY_CAST(coalesce(v.status, v.response_status) AS INTEGER)) END AS state,
           coalesce(v.status, v.response_status) AS said,
           present(v.cache_reference_id) IS NOT NULL AND v.cache_reference_id <> '00000000-0000-0000-0000-000000000000' AS hit,
           CASE WHEN v.request_created_at IS NULL AND v.latency IS NULL AND v.delay_ms IS NULL THEN 'no_request_field'
                WHEN coalesce(v.status, v.response_status) = '-2' THEN 'unfinished' END AS other
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
       nullif(concat_ws(',', CASE WHEN NOT coalesce(hit, false) THEN CASE WHEN token_ns = 0 AND total_ns > 0 THEN 'ttft_zero' WHEN token_ns = total_ns THEN 'ttft_equals_e2e' ELSE ttft_fault(token_ns, total_ns) END END), '') AS note,
       to_text(v.request_id) AS request_id,
       to_text(v.response_id) AS attempt_id,
       to_text(v.properties."Helicone-Session-Id") AS turn_id,
       CASE WHEN NOT coalesce(hit, false) THEN to_text(v.gateway_deployment_target) END AS replica,
       coalesce(to_text(v.model), to_text(v.request_model)) AS model,
       nullif(regexp_extract(v.target_url, '^[a-z]+://[^/]+(/[^?]*)', 1), '') AS route,
       to_text(v.provider) AS provider,
       coalesce(to_text(v.properties.tier), to_text(v.properties.tenant)) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CASE WHEN NOT coalesce(hit, false) AND token_ns > 0 AND token_ns < total_ns THEN token_ns END AS ttft_ns,
       CASE WHEN NOT coalesce(hit, false) AND token_ns > 0 AND token_ns < total_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN state = 'ok' OR to_count(v.prompt_tokens) > 0 THEN to_count(v.prompt_tokens) END AS prompt_tokens,
       CASE WHEN state = 'ok' OR to_count(v.prompt_cache_read_tokens) > 0 THEN to_count(v.prompt_cache_read_tokens) END AS cached_tokens,
       CASE WHEN state = 'ok' OR to_count(v.completion_tokens) > 0 THEN to_count(v.completion_tokens) END AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN said = '-1' THEN 'timeout' WHEN said = '-3' THEN 'client_gone' WHEN state <> 'ok' THEN http_kind(code) END AS error_kind,
       hit AS cache_hit,
       TRY_CAST(TRY_CAST(v.cost AS DECIMAL(24, 3)) * 0.000000001 AS DECIMAL(24, 12)) AS cost,
       CASE WHEN v.cost IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM t
