-- format: vertex_request_response
-- title: Vertex AI / Gemini request-response logging, BigQuery
-- spec: https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/request-response-logging
-- source: setPublisherModelConfig loggingConfig with enabled=true, samplingRate=1.0; bq extract as JSON lines or Parquet
-- input: json
-- detect: logging_time, api_method, full_response|full_request
-- clock: logging_time is when the row was written, after the end: no start
-- resolution: 1ms
-- observer: engine
-- observes: request_id, replica, model, route, provider, observer, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status, error_kind, streamed, weight
-- hint: no duration and no start in this table: it gives tokens only. Time comes from the client, from OpenTelemetry spans, or from Cloud Monitoring (aggregates)
-- traps: samplingRate below 1 leaves rows out and no column says how many: every row counts once ; promptTokenCount includes cached tokens, thoughtsTokenCount is beside
--   candidatesTokenCount ; logging_time is no start ; request_id is a NUMERIC, often text
WITH x AS (
    SELECT line, record, from_json(j, '{
        "endpoint": "VARCHAR", "deployed_model_id": "VARCHAR", "logging_time": "VARCHAR", "request_id": "VARCHAR", "model": "VARCHAR", "api_method": "VARCHAR", "full_response": "VARCHAR"}') AS v
    FROM raw
), p AS (
    -- the column may be JSON or text, and a stream's is a list whose last part has the counts
    SELECT line, record, v, CASE WHEN json_valid(v.full_response) THEN
               CASE WHEN json_type(v.full_response) = 'ARRAY' THEN json_extract_string(v.full_response, '$[#-1]') WHEN json_type(v.full_response) = 'OBJECT' THEN v.full_response END END AS r
    FROM x
), q AS (
    SELECT line, record, v, from_json(CASE WHEN r[1] = '{' AND json_valid(r) THEN r END, '{"error": {"code": "VARCHAR"}, "usageMetadata": {"promptTokenCount": "VARCHAR", "cachedContentTokenCount": "VARCHAR",
               "candidatesTokenCount": "VARCHAR", "thoughtsTokenCount": "VARCHAR"}, "candidates": "JSON"}') AS r
    FROM p
), t AS (
    SELECT line, record, v, r, CAST(NULL AS BIGINT) AS total_ns, TRY_CAST(r.error.code AS INTEGER) AS code,
           CASE WHEN r.error.code IS NOT NULL THEN coalesce(nullif(http_class(TRY_CAST(r.error.code AS INTEGER)), 'ok'), 'error') ELSE 'ok' END AS state,
           to_count(r.usageMetadata.candidatesTokenCount) + coalesce(to_count(r.usageMetadata.thoughtsTokenCount), 0) AS completion_tokens,
           CASE WHEN v.request_id IS NULL AND v.logging_time IS NULL THEN 'no_request_field' END AS other
    FROM q
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       to_text(v.request_id) AS request_id,
       coalesce(to_text(v.deployed_model_id), nullif(regexp_extract(v.endpoint, '^(?:https://)?([^/]+)', 1), '')) AS replica,
       regexp_replace(to_text(v.model), '^.*/models/', '') AS model,
       to_text(v.api_method) AS route,
       'vertex' AS provider,
       'engine' AS observer,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(r.usageMetadata.promptTokenCount) AS prompt_tokens,
       to_count(r.usageMetadata.cachedContentTokenCount) AS cached_tokens,
       completion_tokens,
       to_count(r.usageMetadata.thoughtsTokenCount) AS reasoning_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN v.api_method ILIKE 'stream%' THEN true WHEN v.api_method IS NOT NULL THEN false END AS streamed,
       CAST(1 AS DOUBLE) AS weight
FROM t
