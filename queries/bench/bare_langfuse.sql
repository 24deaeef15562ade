-- name: bench/bare_langfuse
-- What a bare DuckDB does with the generated export: the columns that hedgectl fills from it, exact integers, a unique key. $path.
CREATE TABLE bare (
    request_id VARCHAR, attempt_id VARCHAR PRIMARY KEY, parent_id VARCHAR, turn_id VARCHAR, model VARCHAR, observer VARCHAR, arrival_ns BIGINT,
    e2e_ns BIGINT, ttft_ns BIGINT, ttft_basis VARCHAR, resolution_ns BIGINT, prompt_tokens BIGINT, cached_tokens BIGINT,
    completion_tokens BIGINT, status VARCHAR, streamed BOOLEAN, tools_offered BOOLEAN, tool_names VARCHAR, cost DECIMAL(24, 12),
    currency VARCHAR, weight DOUBLE
);
INSERT INTO bare
SELECT id, id, parent_observation_id, trace_id, provided_model_name, 'client', epoch_ns(start_time), epoch_ns(end_time) - epoch_ns(start_time),
       epoch_ns(completion_start_time) - epoch_ns(start_time), 'first_token', 1000000, usage_details.input + usage_details.input_cached_tokens,
       usage_details.input_cached_tokens, usage_details.output, CASE level WHEN 'ERROR' THEN 'error' ELSE 'ok' END, true, true,
       array_to_string(list_sort(map_keys(tool_definitions)), ','), cost_details.total, 'USD', 1
FROM read_json($path, format = 'newline_delimited', columns = {
    id: 'VARCHAR', trace_id: 'VARCHAR', type: 'VARCHAR', parent_observation_id: 'VARCHAR', start_time: 'TIMESTAMP_NS', end_time: 'TIMESTAMP_NS',
    completion_start_time: 'TIMESTAMP_NS', level: 'VARCHAR', provided_model_name: 'VARCHAR',
    usage_details: 'STRUCT(input BIGINT, input_cached_tokens BIGINT, output BIGINT, output_reasoning_tokens BIGINT)',
    cost_details: 'STRUCT(total DECIMAL(24, 12))', tool_definitions: 'MAP(VARCHAR, VARCHAR)'
}) WHERE type = 'GENERATION'
