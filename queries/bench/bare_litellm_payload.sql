-- name: bench/bare_litellm_payload
-- What a bare DuckDB does with the generated log: the columns that hedgectl fills from it, exact integers, a unique key. $path.
CREATE TABLE bare (
    request_id VARCHAR, attempt_id VARCHAR PRIMARY KEY, turn_id VARCHAR, replica VARCHAR, model VARCHAR, route VARCHAR, provider VARCHAR,
    segment VARCHAR, observer VARCHAR, arrival_ns BIGINT, e2e_ns BIGINT, ttft_ns BIGINT, ttft_basis VARCHAR, resolution_ns BIGINT,
    prompt_tokens BIGINT, cached_tokens BIGINT, completion_tokens BIGINT, status VARCHAR, http_status INTEGER, cache_hit BOOLEAN,
    streamed BOOLEAN, cost DECIMAL(24, 12), currency VARCHAR, weight DOUBLE
);
INSERT INTO bare
SELECT litellm_call_id, id, trace_id, model_id, model_group, metadata.user_api_key_request_route, custom_llm_provider,
       metadata.user_api_key_team_alias, 'gateway', (startTime * 1000000000)::BIGINT, ((endTime - startTime) * 1000000000)::BIGINT,
       CASE WHEN completionStartTime > startTime AND completionStartTime < endTime
            THEN ((completionStartTime - startTime) * 1000000000)::BIGINT END,
       CASE WHEN completionStartTime > startTime AND completionStartTime < endTime THEN 'first_token' END, 1000,
       prompt_tokens, metadata.usage_object.prompt_tokens_details.cached_tokens, completion_tokens,
       CASE status WHEN 'success' THEN 'ok' WHEN 'failure' THEN 'error' END, CASE status WHEN 'success' THEN 200 END,
       coalesce(cache_hit, false), stream, response_cost, 'USD', 1
FROM read_json($path, format = 'newline_delimited', columns = {
    id: 'VARCHAR', litellm_call_id: 'VARCHAR', trace_id: 'VARCHAR', status: 'VARCHAR', startTime: 'DECIMAL(28, 9)', endTime: 'DECIMAL(28, 9)',
    completionStartTime: 'DECIMAL(28, 9)', model_group: 'VARCHAR', model_id: 'VARCHAR', custom_llm_provider: 'VARCHAR',
    prompt_tokens: 'BIGINT', completion_tokens: 'BIGINT', response_cost: 'DECIMAL(24, 12)', stream: 'BOOLEAN', cache_hit: 'BOOLEAN',
    metadata: 'STRUCT(user_api_key_request_route VARCHAR, user_api_key_team_alias VARCHAR,
                      usage_object STRUCT(prompt_tokens_details STRUCT(cached_tokens BIGINT)))'
})
