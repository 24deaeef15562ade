-- format: azure_apim
-- title: Azure API Management, ApiManagementGatewayLogs
-- spec: https://learn.microsoft.com/azure/azure-monitor/reference/tables/apimanagementgatewaylogs
-- source: diagnostic setting GatewayLogs, resource specific; ApiManagementGatewayLogs | project-away TenantId, exported as JSON or CSV
-- input: json
-- detect: CorrelationId, TotalTime, BackendTime
-- clock: TimeGenerated, the start, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, replica, pool, route, segment, observer, arrival_ns, e2e_ns, resolution_ns, request_bytes, response_bytes, status, http_status, error_kind, cache_hit, weight
-- one_row: request
-- hint: tokens are in ApiManagementGatewayLlmLog (format azure_apim_llm): read both with --join. There is no first token
-- traps: BackendTime holds all attempts of a retry policy, of which only the last one's URL and status are there ; BackendUrl names the pool member, BackendId the pool ;
--   a caller that left is a row with the error ClientConnectionFailure
WITH x AS (
    SELECT line, record, from_json(j, '{
        "TimeGenerated": "VARCHAR", "CorrelationId": "VARCHAR", "ApiId": "VARCHAR", "OperationId": "VARCHAR", "BackendId": "VARCHAR", "BackendUrl": "VARCHAR", "BackendResponseCode": "VARCHAR", "BackendTime": "VARCHAR", "Cache": "VARCHAR",
        "TotalTime": "VARCHAR", "ResponseCode": "VARCHAR", "IsRequestSuccess": "VARCHAR", "LastErrorReason": "VARCHAR", "Errors": "VARCHAR", "Method": "VARCHAR", "RequestSize": "VARCHAR", "ResponseSize": "VARCHAR", "ApimSubscriptionId": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.TimeGenerated, NULL) AS start_ns, ms_ns(v.TotalTime) AS total_ns, TRY_CAST(v.ResponseCode AS INTEGER) AS code,
           coalesce(v.LastErrorReason = 'ClientConnectionFailure' OR contains(v.Errors, 'ClientConnectionFailure'), false) AS left_early,
           CASE WHEN v.LastErrorReason = 'ClientConnectionFailure' OR contains(v.Errors, 'ClientConnectionFailure') OR v.LastErrorReason = 'Timeout' OR TRY_CAST(v.ResponseCode AS INTEGER) = 0 THEN 'censored'
                ELSE http_class(TRY_CAST(v.ResponseCode AS INTEGER)) END AS state,
           CASE WHEN v.TimeGenerated IS NULL AND v.TotalTime IS NULL THEN 'no_request_field' WHEN v."Method" NOT IN ('POST', 'PUT') THEN 'not_a_generation' END AS other
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
       nullif(concat_ws(',', CASE WHEN is_naive(v.TimeGenerated) THEN 'naive_time' END), '') AS note,
       to_text(v.CorrelationId) AS request_id,
       nullif(regexp_extract(v.BackendUrl, '^[a-z]+://([^/]+)', 1), '') AS replica,
       to_text(v.BackendId) AS pool,
       coalesce(to_text(v.OperationId), to_text(v.ApiId)) AS route,
       to_text(v.ApimSubscriptionId) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.RequestSize) AS request_bytes,
       to_count(v.ResponseSize) AS response_bytes,
       state AS status,
       nullif(code, 0) AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN left_early OR code = 0 THEN 'client_gone' WHEN v.LastErrorReason = 'Timeout' THEN 'timeout' ELSE coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN lower(v.Cache) = 'hit' THEN true WHEN present(v.Cache) IS NOT NULL THEN false END AS cache_hit,
       CAST(1 AS DOUBLE) AS weight
FROM t
