-- format: bedrock_invocation
-- title: AWS Bedrock model invocation log
-- spec: https://docs.aws.amazon.com/bedrock/latest/userguide/model-invocation-logging.html
-- source: put-model-invocation-logging-configuration with textDataDeliveryEnabled=true; aws s3 sync, or CloudWatch
-- input: json
-- detect: schemaType=ModelInvocationLog, modelId, requestId
-- clock: timestamp, to 1 s, UTC
-- resolution: 1ms
-- observer: engine
-- observes: request_id, turn_id, replica, model, route, provider, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, status,
--   http_status, error_kind, streamed, tools_offered, tool_names, weight
-- hint: the length is in the body: without text delivery, and for plain InvokeModel, there is none; only InvokeModelWithResponseStream has a first byte.
--   Retries of the SDK are requests of their own: send requestMetadata with your request id
-- traps: no top-level latency ; time to 1 s ; input tokens leave out what came from the prompt cache: the three are added ; large bodies lie in another
--   object ; the body of a stream is a list of events whose last one holds the metrics
-- notes: no_latency_in_body = rows whose body holds no latency
WITH x AS (
    SELECT line, record, from_json(j, '{
        "timestamp": "VARCHAR", "requestId": "VARCHAR", "operation": "VARCHAR", "modelId": "VARCHAR", "region": "VARCHAR", "inferenceRegion": "VARCHAR", "errorCode": "VARCHAR", "accountId": "VARCHAR",
        "requestMetadata": {"traceId": "VARCHAR", "session_id": "VARCHAR", "sessionId": "VARCHAR", "tenant": "VARCHAR", "tier": "VARCHAR"},
        "input": {"inputTokenCount": "VARCHAR", "cacheReadInputTokenCount": "VARCHAR", "cacheWriteInputTokenCount": "VARCHAR", "inputBodyJson": "JSON"},
        "output": {"outputTokenCount": "VARCHAR", "outputBodyJson": "JSON"}}') AS v
    FROM raw
), b AS (
    SELECT line, record, v, CASE WHEN json_type(v.output.outputBodyJson) = 'OBJECT' THEN json_extract_string(v.output.outputBodyJson, '/metrics/latencyMs') END AS whole_ms,
           -- the last event of a stream; ConverseStream has a metadata event with metrics
           CASE WHEN json_type(v.output.outputBodyJson) = 'ARRAY' THEN json_extract_string(v.output.outputBodyJson, '$[#-1]') END AS event,
           tool_list(coalesce(json_extract_string(v.input.inputBodyJson, '/tools'),
                              CAST(list_transform(CASE WHEN json_type(v.input.inputBodyJson, '/toolConfig/tools') = 'ARRAY' THEN CAST(json_extract(v.input.inputBodyJson, '/toolConfig/tools') AS JSON[]) END,
                                                  lambda t: json_object('name', json_extract_string(t, '/toolSpec/name'))) AS JSON)::VARCHAR)) AS tools
    FROM x
), m AS (
    SELECT *, from_json(CASE WHEN event[1] = '{' AND json_valid(event) THEN event END, '{
               "amazon-bedrock-invocationMetrics": {"firstByteLatency": "VARCHAR", "invocationLatency": "VARCHAR"}, "metadata": {"metrics": {"latencyMs": "VARCHAR"}}, "metrics": {"latencyMs": "VARCHAR"}}') AS e
    FROM b
), t AS (
    SELECT *, iso_ns(present(v."timestamp")) AS start_ns,
           coalesce(ms_ns(whole_ms), ms_ns(e."amazon-bedrock-invocationMetrics".invocationLatency), ms_ns(e.metadata.metrics.latencyMs), ms_ns(e.metrics.latencyMs)) AS total_ns,
           ms_ns(e."amazon-bedrock-invocationMetrics".firstByteLatency) AS token_ns,
           CASE v.errorCode WHEN 'ThrottlingException' THEN 429 WHEN 'ServiceQuotaExceededException' THEN 429 WHEN 'ModelTimeoutException' THEN 408 WHEN 'ValidationException' THEN 400
                            WHEN 'AccessDeniedException' THEN 403 WHEN 'ModelErrorException' THEN 424 WHEN 'InternalServerException' THEN 500 WHEN 'ServiceUnavailableException' THEN 503 END AS code,
           CASE WHEN present(v.errorCode) IS NULL THEN 'ok' WHEN v.errorCode LIKE '%Timeout%' THEN 'censored' ELSE 'error' END AS state,
           CASE WHEN v.requestId IS NULL AND v."timestamp" IS NULL THEN 'no_request_field' END AS other
    FROM m
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
       nullif(concat_ws(',', CASE WHEN is_naive(present(v."timestamp")) THEN 'naive_time' END, CASE WHEN state = 'ok' AND total_ns IS NULL THEN 'no_latency_in_body' END, CASE WHEN token_ns = 0 AND total_ns > 0 THEN 'ttft_zero' WHEN token_ns = total_ns THEN 'ttft_equals_e2e' ELSE ttft_fault(token_ns, total_ns) END), '') AS note,
       to_text(v.requestId) AS request_id,
       coalesce(to_text(v.requestMetadata.session_id), to_text(v.requestMetadata.sessionId), to_text(v.requestMetadata.traceId)) AS turn_id,
       coalesce(to_text(v.inferenceRegion), to_text(v.region)) AS replica,
       to_text(v.modelId) AS model,
       to_text(v.operation) AS route,
       'bedrock' AS provider,
       coalesce(to_text(v.requestMetadata.tenant), to_text(v.requestMetadata.tier)) AS segment,
       'engine' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CASE WHEN token_ns > 0 AND token_ns < total_ns THEN token_ns END AS ttft_ns,
       CASE WHEN token_ns > 0 AND token_ns < total_ns THEN 'first_byte' END AS ttft_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.input.inputTokenCount) + coalesce(to_count(v.input.cacheReadInputTokenCount), 0) + coalesce(to_count(v.input.cacheWriteInputTokenCount), 0) AS prompt_tokens,
       to_count(v.input.cacheReadInputTokenCount) AS cached_tokens,
       to_count(v.output.outputTokenCount) AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN v.operation LIKE '%Stream' THEN true WHEN v.operation IS NOT NULL THEN false END AS streamed,
       CASE WHEN tools <> '' THEN true WHEN json_type(v.input.inputBodyJson) = 'OBJECT' THEN false END AS tools_offered,
       nullif(tools, '') AS tool_names,
       CAST(1 AS DOUBLE) AS weight
FROM t
