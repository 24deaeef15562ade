-- format: azure_apim_llm
-- title: Azure API Management, ApiManagementGatewayLlmLog
-- spec: https://learn.microsoft.com/azure/azure-monitor/reference/tables/apimanagementgatewayllmlog
-- source: diagnostic setting GenerativeAIGatewayLogs, resource specific; ApiManagementGatewayLlmLog exported as JSON or CSV
-- input: json
-- detect: CorrelationId, PromptTokens, CompletionTokens, DeploymentName|ModelName
-- clock: TimeGenerated, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, model, provider, observer, arrival_ns, resolution_ns, prompt_tokens, completion_tokens, status, weight
-- hint: there is no duration in this log: ApiManagementGatewayLogs has it under the same CorrelationId (format azure_apim): read both with --join
-- traps: long messages are split into rows with a SequenceNumber that repeat the tokens: only the first is counted ; the polarity of IsStreamCompletion is not
--   clear, so it is not read ; failed requests may have no row
WITH x AS (
    SELECT line, record, from_json(j, '{
        "TimeGenerated": "VARCHAR", "CorrelationId": "VARCHAR", "RequestId": "VARCHAR", "SequenceNumber": "VARCHAR", "DeploymentName": "VARCHAR", "ModelName": "VARCHAR", "PromptTokens": "VARCHAR", "CompletionTokens": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.TimeGenerated, NULL) AS start_ns, CAST(NULL AS BIGINT) AS total_ns, 'ok' AS state,
           CASE WHEN v.CorrelationId IS NULL AND v.TimeGenerated IS NULL THEN 'no_request_field' WHEN to_count(v.SequenceNumber) > 0 THEN 'part_of_message' END AS other
    FROM x
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       coalesce(to_text(v.CorrelationId), to_text(v.RequestId)) AS request_id,
       coalesce(to_text(v.DeploymentName), to_text(v.ModelName)) AS model,
       'azure' AS provider,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.PromptTokens) AS prompt_tokens,
       to_count(v.CompletionTokens) AS completion_tokens,
       state AS status,
       CAST(1 AS DOUBLE) AS weight
FROM t
