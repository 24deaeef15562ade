-- format: azure_openai
-- title: Azure OpenAI diagnostic log, category RequestResponse
-- spec: https://learn.microsoft.com/azure/ai-services/openai/how-to/monitor-openai
-- source: diagnostic setting with category RequestResponse to a storage account or Event Hub (records one a line)
-- input: json
-- detect: category=RequestResponse, durationMs, properties
-- clock: requestTime in .NET ticks of 100 ns, else time, UTC
-- resolution: 1us
-- observer: engine
-- observes: request_id, replica, model, route, provider, observer, arrival_ns, e2e_ns, resolution_ns, request_bytes, response_bytes, status, http_status, error_kind, streamed, weight
-- hint: no tokens and no first token; API Management's LLM log has tokens (format azure_apim_llm), the client has the first token
-- traps: properties is JSON in a string ; requestTime and responseTime are ticks of 100 ns since the year 1 ; durationMs is rounded ; throttled requests are
--   rows of some ms: errors, not fast answers
WITH x AS (
    SELECT line, record, from_json(j, '{
        "time": "VARCHAR", "category": "VARCHAR", "durationMs": "VARCHAR", "correlationId": "VARCHAR", "resultSignature": "VARCHAR", "operationName": "VARCHAR", "location": "VARCHAR", "resourceId": "VARCHAR", "properties": "VARCHAR"}') AS v
    FROM raw
), p AS (
    SELECT line, record, v, from_json(CASE WHEN v.properties[1] = '{' AND json_valid(v.properties) THEN v.properties END, '{
               "requestTime": "VARCHAR", "responseTime": "VARCHAR", "requestLength": "VARCHAR", "responseLength": "VARCHAR", "streamType": "VARCHAR", "modelDeploymentName": "VARCHAR", "modelName": "VARCHAR"}') AS p
    FROM x
), k AS (
    -- ticks of 100 ns since 0001-01-01; beyond these bounds it is no tick
    SELECT *, CASE WHEN TRY_CAST(p.requestTime AS BIGINT) BETWEEN 630822816000000000 AND 694000000000000000 THEN (TRY_CAST(p.requestTime AS BIGINT) - 621355968000000000) * 100 END AS asked_ns,
           CASE WHEN TRY_CAST(p.responseTime AS BIGINT) BETWEEN 630822816000000000 AND 694000000000000000 THEN (TRY_CAST(p.responseTime AS BIGINT) - 621355968000000000) * 100 END AS told_ns
    FROM p
), t AS (
    SELECT *, coalesce(asked_ns, iso_in_ns(v."time", NULL)) AS start_ns, coalesce(TRY(told_ns - asked_ns), ms_ns(v.durationMs)) AS total_ns, TRY_CAST(v.resultSignature AS INTEGER) AS code,
           http_class(TRY_CAST(v.resultSignature AS INTEGER)) AS state,
           CASE WHEN v.category <> 'RequestResponse' THEN 'not_a_generation' WHEN v.durationMs IS NULL AND asked_ns IS NULL THEN 'no_request_field' END AS other
    FROM k
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
       to_text(v.correlationId) AS request_id,
       coalesce(lower(nullif(regexp_extract(v.resourceId, '(?i)/accounts/([^/]+)', 1), '')), to_text(v.location)) AS replica,
       coalesce(to_text(p.modelDeploymentName), to_text(p.modelName)) AS model,
       to_text(v.operationName) AS route,
       'azure' AS provider,
       'engine' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CAST(CASE WHEN told_ns IS NOT NULL AND asked_ns IS NOT NULL THEN 1000 ELSE 1000000 END AS BIGINT) AS resolution_ns,
       to_count(p.requestLength) AS request_bytes,
       to_count(p.responseLength) AS response_bytes,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE lower(p.streamType) WHEN 'streaming' THEN true WHEN 'non-streaming' THEN false END AS streamed,
       CAST(1 AS DOUBLE) AS weight
FROM t
