-- format: portkey_metric
-- title: Portkey self-hosted gateway, metric record
-- spec: https://portkey.ai/docs (enterprise gateway, log store: metric object)
-- source: self-hosted gateway with ANALYTICS_STORE or a log bucket; one metric object a request
-- input: json
-- detect: ttlt, response_time, ai_model|ai_org
-- clock: created_at, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_id, attempt_no, cause, turn_id, replica, model, provider, segment, observer, arrival_ns, e2e_ns, headers_ns, resolution_ns, prompt_tokens, completion_tokens,
--   status, http_status, error_kind, cache_hit, streamed, weight
-- hint: the record has the last token (ttlt) but not the first; measure TTFT at the client or at the engine
-- traps: flags and counts are floats ; metadata is two parallel lists ; retry_success_count is text, -1 when all retries failed ; response_time of a stream
--   ends at the headers, ttlt at the last token ; the unit of cost is not certain (cents or dollars), so cost is not read
-- notes: holds_failed_attempts = rows whose length holds failed attempts too
WITH x AS (
    SELECT line, record, from_json(j, '{
        "id": "VARCHAR", "trace_id": "VARCHAR", "span_id": "VARCHAR", "created_at": "VARCHAR", "ai_org": "VARCHAR", "ai_model": "VARCHAR", "req_units": "VARCHAR", "res_units": "VARCHAR",
        "response_time": "VARCHAR", "ttlt": "VARCHAR", "response_status_code": "VARCHAR", "is_success": "VARCHAR", "stream_mode": "VARCHAR", "cache_status": "VARCHAR",
        "retry_success_count": "VARCHAR", "last_used_option_index": "VARCHAR", "virtual_key": "VARCHAR", "metadata": {"key": ["VARCHAR"], "value": ["VARCHAR"]}}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.created_at, NULL) AS start_ns, to_bool(v.stream_mode) AS streamed, ms_ns(v.response_time) AS answer_ns,
           CASE WHEN to_bool(v.stream_mode) THEN nullif(ms_ns(v.ttlt), 0) ELSE coalesce(ms_ns(v.response_time), nullif(ms_ns(v.ttlt), 0)) END AS total_ns,
           TRY_CAST(TRY_CAST(v.response_status_code AS DOUBLE) AS INTEGER) AS code,
           coalesce(http_class(TRY_CAST(TRY_CAST(v.response_status_code AS DOUBLE) AS INTEGER)), CASE WHEN to_bool(v.is_success) THEN 'ok' WHEN NOT to_bool(v.is_success) THEN 'error' END) AS state,
           TRY_CAST(v.retry_success_count AS INTEGER) AS retries, lower(v.cache_status) AS cached,
           CASE WHEN v.created_at IS NULL AND v.response_time IS NULL THEN 'no_request_field' END AS other
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
       nullif(concat_ws(',', CASE WHEN retries <> 0 THEN 'holds_failed_attempts' END), '') AS note,
       to_text(v.id) AS request_id,
       to_text(v.span_id) AS attempt_id,
       CASE WHEN retries >= 0 THEN retries END AS attempt_no,
       CASE WHEN retries = 0 THEN 'primary' WHEN retries IS NOT NULL THEN 'retry' END AS cause,
       coalesce(to_text(v.metadata."value"[list_position(v.metadata."key", 'session_id')]), to_text(v.trace_id)) AS turn_id,
       CASE WHEN cached NOT LIKE '%hit' OR cached IS NULL THEN to_text(v.virtual_key) || coalesce('#' || v.last_used_option_index, '') END AS replica,
       to_text(v.ai_model) AS model,
       to_text(v.ai_org) AS provider,
       to_text(v.metadata."value"[list_position(v.metadata."key", 'tier')]) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CASE WHEN streamed AND answer_ns BETWEEN 0 AND total_ns THEN answer_ns END AS headers_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN state = 'ok' OR to_count(v.req_units) > 0 THEN to_count(v.req_units) END AS prompt_tokens,
       CASE WHEN state = 'ok' OR to_count(v.res_units) > 0 THEN to_count(v.res_units) END AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN cached LIKE '%hit' THEN true WHEN cached IS NOT NULL THEN false END AS cache_hit,
       streamed,
       CAST(1 AS DOUBLE) AS weight
FROM t
