-- format: portkey_log
-- title: Portkey log export, or log objects of a self-hosted gateway
-- spec: https://portkey.ai/docs/product/observability/logs-export
-- source: Logs > Export, or POST /v1/logs/exports with requested_data id, trace_id, created_at, request, response, ai_org, ai_model, req_units,
--   res_units, cost, cost_currency, response_time, response_status_code, metadata
-- input: json
-- detect: response_time|response.responseTime, response_status_code|ai_model|response.status, ai_org|organisation_id, created_at, !ttlt, !stream_mode
-- clock: created_at, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_no, cause, turn_id, replica, model, provider, segment, observer, arrival_ns, e2e_ns, headers_ns, resolution_ns, prompt_tokens, completion_tokens,
--   status, http_status, error_kind, cache_hit, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: no first token in this log; the metric records of a self-hosted gateway have the last token (ttlt), the client has both
-- traps: response_time of a stream ends at the headers, so streams have no length here ; without the request it is not known which rows are streams ;
--   cost is in cents ; a retry count of -1 means that all retries failed ; fields can be left out of an export
-- notes: stream_without_length = streams, whose length this log does not have ; holds_failed_attempts = rows whose length holds failed attempts too
WITH x AS (
    SELECT line, record, from_json(j, '{
        "id": "VARCHAR", "_id": "VARCHAR", "trace_id": "VARCHAR", "created_at": "VARCHAR", "ai_org": "VARCHAR", "ai_model": "VARCHAR", "req_units": "VARCHAR", "res_units": "VARCHAR", "cost": "VARCHAR",
        "cost_currency": "VARCHAR", "response_time": "VARCHAR", "response_status_code": "VARCHAR", "metadata": {"_user": "VARCHAR", "tier": "VARCHAR", "session_id": "VARCHAR"},
        "request": {"portkeyHeaders": {"x-portkey-provider": "VARCHAR", "x-portkey-trace-id": "VARCHAR"}, "body": {"stream": "VARCHAR", "tools": "VARCHAR", "model": "VARCHAR"}},
        "response": {"status": "VARCHAR", "responseTime": "VARCHAR", "lastUsedOptionJsonPath": "VARCHAR", "headers": {"x-portkey-cache-status": "VARCHAR", "x-portkey-retry-attempt-count": "VARCHAR",
                     "x-portkey-last-used-option-index": "VARCHAR", "content-type": "VARCHAR"}}}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.created_at, NULL) AS start_ns, coalesce(ms_ns(v.response_time), ms_ns(v.response.responseTime)) AS total_ns,
           TRY_CAST(TRY_CAST(coalesce(v.response_status_code, v.response.status) AS DOUBLE) AS INTEGER) AS code,
           http_class(TRY_CAST(TRY_CAST(coalesce(v.response_status_code, v.response.status) AS DOUBLE) AS INTEGER)) AS state,
           coalesce(to_bool(v.request.body.stream), CASE WHEN v.response.headers."content-type" LIKE 'text/event-stream%' THEN true
                                                         WHEN v.request.body.model IS NOT NULL THEN false END) AS streamed,
           TRY_CAST(v.response.headers."x-portkey-retry-attempt-count" AS INTEGER) AS retries,
           upper(v.response.headers."x-portkey-cache-status") AS cached, tool_list(v.request.body.tools) AS tools,
           CASE WHEN v.created_at IS NULL AND v.response_time IS NULL AND v.response.responseTime IS NULL THEN 'no_request_field' END AS other
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
       nullif(concat_ws(',', CASE WHEN streamed AND state = 'ok' THEN 'stream_without_length' END, CASE WHEN retries <> 0 AND NOT coalesce(streamed, false) THEN 'holds_failed_attempts' END), '') AS note,
       coalesce(to_text(v.id), to_text(v._id)) AS request_id,
       CASE WHEN retries >= 0 THEN retries END AS attempt_no,
       CASE WHEN retries = 0 THEN 'primary' WHEN retries IS NOT NULL THEN 'retry' END AS cause,
       coalesce(to_text(v.metadata.session_id), to_text(v.trace_id), to_text(v.request.portkeyHeaders."x-portkey-trace-id")) AS turn_id,
       CASE WHEN cached NOT LIKE '%HIT' OR cached IS NULL THEN coalesce(to_text(v.response.lastUsedOptionJsonPath), to_text(v.response.headers."x-portkey-last-used-option-index")) END AS replica,
       coalesce(to_text(v.ai_model), to_text(v.request.body.model)) AS model,
       coalesce(to_text(v.ai_org), to_text(v.request.portkeyHeaders."x-portkey-provider")) AS provider,
       coalesce(to_text(v.metadata.tier), to_text(v.metadata._user)) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN NOT (coalesce(streamed, false) AND state = 'ok') AND (total_ns > 0 OR state = 'ok') THEN total_ns END AS e2e_ns,
       CASE WHEN streamed AND state = 'ok' AND total_ns >= 0 THEN total_ns END AS headers_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN state = 'ok' OR to_count(v.req_units) > 0 THEN to_count(v.req_units) END AS prompt_tokens,
       CASE WHEN state = 'ok' OR to_count(v.res_units) > 0 THEN to_count(v.res_units) END AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN cached LIKE '%HIT' THEN true WHEN cached IS NOT NULL THEN false END AS cache_hit,
       streamed,
       CASE WHEN tools <> '' THEN true WHEN v.request.body.model IS NOT NULL THEN false END AS tools_offered,
       nullif(tools, '') AS tool_names,
       TRY_CAST(to_money(v.cost) * 0.01 AS DECIMAL(24, 12)) AS cost,
       CASE WHEN v.cost IS NOT NULL THEN coalesce(to_text(v.cost_currency), 'USD') END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM t
