-- name: bench/bare_vllm_otlp
-- What a bare DuckDB does with the generated spans: read_json, unnest, attributes as a map; the columns that hedgectl fills, exact
-- integers, a unique key. $path.
CREATE TABLE bare (
    request_id VARCHAR, attempt_id VARCHAR PRIMARY KEY, turn_id VARCHAR, replica VARCHAR, observer VARCHAR, arrival_ns BIGINT, e2e_ns BIGINT,
    ttft_ns BIGINT, ttft_basis VARCHAR, queue_ns BIGINT, queue_basis VARCHAR, prefill_ns BIGINT, prefill_basis VARCHAR, decode_ns BIGINT,
    decode_basis VARCHAR, resolution_ns BIGINT, prompt_tokens BIGINT, completion_tokens BIGINT, status VARCHAR, weight DOUBLE
);
INSERT INTO bare
WITH resources AS (
    SELECT unnest(resourceSpans) AS r
    FROM read_json($path, format = 'newline_delimited', maximum_object_size = 33554432, columns = {resourceSpans: 'STRUCT(
        resource STRUCT(attributes STRUCT("key" VARCHAR, "value" STRUCT(stringValue VARCHAR))[]),
        scopeSpans STRUCT(spans STRUCT(
            traceId VARCHAR, spanId VARCHAR, "name" VARCHAR, startTimeUnixNano BIGINT, endTimeUnixNano BIGINT,
            attributes STRUCT("key" VARCHAR, "value" STRUCT(stringValue VARCHAR, intValue BIGINT, doubleValue DECIMAL(28, 9)))[],
            status STRUCT(code VARCHAR))[])[])[]'})
), scopes AS (
    SELECT map_from_entries(r.resource.attributes) AS res, unnest(r.scopeSpans) AS scope FROM resources
), spans AS (
    SELECT res, unnest(scope.spans) AS s FROM scopes
), requests AS (
    SELECT res['service.name'].stringValue AS replica, s, map_from_entries(s.attributes) AS a FROM spans WHERE s.name = 'llm_request'
)
SELECT a['gen_ai.request.id'].stringValue, s.spanId, s.traceId, replica, 'engine', s.startTimeUnixNano,
       (a['gen_ai.latency.e2e'].doubleValue * 1000000000)::BIGINT,
       (a['gen_ai.latency.time_to_first_token'].doubleValue * 1000000000)::BIGINT, 'engine',
       (a['gen_ai.latency.time_in_queue'].doubleValue * 1000000000)::BIGINT, 'measured',
       (a['gen_ai.latency.time_in_model_prefill'].doubleValue * 1000000000)::BIGINT, 'measured',
       (a['gen_ai.latency.time_in_model_decode'].doubleValue * 1000000000)::BIGINT, 'measured', 1000,
       a['gen_ai.usage.prompt_tokens'].intValue, a['gen_ai.usage.completion_tokens'].intValue,
       CASE WHEN s.status.code IN ('2', 'STATUS_CODE_ERROR', 'ERROR') THEN 'error' ELSE 'ok' END, 1
FROM requests
