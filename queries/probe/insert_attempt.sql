-- name: probe/insert_attempt
-- question: what did a live probe see?
-- input: $rows (JSON array, one object an attempt), $file (file_id of the run)
-- output: attempt, one row an attempt sent; format `probe`, observer `client`, open loop, arrival = planned start
INSERT INTO attempt BY NAME
SELECT $file AS file_id, 0 AS record, 'probe' AS format, 'client' AS observer, false AS closed_loop, 1.0 AS weight,
       false AS cache_hit, false AS stored_state, false AS batch, 1 AS n_choices, 1000 AS resolution_ns, r.*
FROM (
    SELECT unnest(from_json($rows, '[{
        "line": "BIGINT", "request_id": "VARCHAR", "attempt_id": "VARCHAR", "attempt_no": "INTEGER", "cause": "VARCHAR",
        "replica": "VARCHAR", "model": "VARCHAR", "provider": "VARCHAR", "route": "VARCHAR",
        "arrival_ns": "BIGINT", "e2e_ns": "BIGINT", "ttft_ns": "BIGINT", "ttft_basis": "VARCHAR", "headers_ns": "BIGINT",
        "decode_ns": "BIGINT", "decode_basis": "VARCHAR",
        "prompt_tokens": "BIGINT", "cached_tokens": "BIGINT", "completion_tokens": "BIGINT", "reasoning_tokens": "BIGINT",
        "request_bytes": "BIGINT", "response_bytes": "BIGINT",
        "status": "VARCHAR", "http_status": "INTEGER", "error_kind": "VARCHAR", "won": "BOOLEAN", "streamed": "BOOLEAN",
        "tools_offered": "BOOLEAN", "tool_names": "VARCHAR", "cost": "DECIMAL(24,12)", "currency": "VARCHAR"
    }]')) AS r
)
