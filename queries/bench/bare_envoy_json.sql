-- name: bench/bare_envoy_json
-- What a bare DuckDB does with the generated log: the columns that hedgectl fills from it, exact integers, a unique key. $path.
CREATE TABLE bare (
    request_id VARCHAR PRIMARY KEY, attempt_no INTEGER, cause VARCHAR, turn_id VARCHAR, replica VARCHAR, model VARCHAR, route VARCHAR,
    segment VARCHAR, observer VARCHAR, arrival_ns BIGINT, e2e_ns BIGINT, ttft_ns BIGINT, ttft_basis VARCHAR, headers_ns BIGINT,
    queue_ns BIGINT, queue_basis VARCHAR, decode_ns BIGINT, decode_basis VARCHAR, resolution_ns BIGINT, prompt_tokens BIGINT,
    completion_tokens BIGINT, request_bytes BIGINT, response_bytes BIGINT, status VARCHAR, http_status INTEGER, streamed BOOLEAN, weight DOUBLE
);
INSERT INTO bare
SELECT x_request_id, 0, 'primary', session_id, upstream_host, model, route_name, tenant, 'edge', (start_epoch * 1000000000)::BIGINT,
       cd_total * 1000, cd_to_us_rx_body_beg * 1000, 'first_token', cd_to_us_rx_beg * 1000, pool_ready_duration * 1000000, 'measured',
       cd_us_rx_body_beg_to_end * 1000, 'measured', 1000000, prompt_tokens, completion_tokens, bytes_received, bytes_sent,
       CASE WHEN response_code BETWEEN 200 AND 399 THEN 'ok' ELSE 'error' END, response_code, content_type LIKE 'text/event-stream%', 1
FROM read_json($path, format = 'newline_delimited', columns = {
    x_request_id: 'VARCHAR', session_id: 'VARCHAR', upstream_host: 'VARCHAR', model: 'VARCHAR', route_name: 'VARCHAR', tenant: 'VARCHAR',
    start_epoch: 'DECIMAL(28, 9)', cd_total: 'BIGINT', cd_to_us_rx_body_beg: 'BIGINT', cd_to_us_rx_beg: 'BIGINT', pool_ready_duration: 'BIGINT',
    cd_us_rx_body_beg_to_end: 'BIGINT', prompt_tokens: 'BIGINT', completion_tokens: 'BIGINT', bytes_received: 'BIGINT', bytes_sent: 'BIGINT',
    response_code: 'INTEGER', content_type: 'VARCHAR', method: 'VARCHAR'
}) WHERE method = 'POST'
