-- name: fleet/hour_rows
-- question: what do the parts of one hour hold, as far as repetitions and counts are concerned?
-- input: Parquet files $files, attempt (for columns that no file has), macro stands
-- output: TEMP TABLE fleet_row, one row an attempt
CREATE OR REPLACE TEMP TABLE fleet_row AS
SELECT file_id, line, record, format, request_id, attempt_id, turn_id, hash(model, route) AS scope, content_hash, observer, arrival_ns, e2e_ns, ttft_ns,
       queue_ns, prefill_ns, decode_ns, tool_wait_ns, replica, prompt_tokens, completion_tokens, cost
FROM (FROM attempt WHERE false UNION ALL BY NAME FROM read_parquet($files, filename = true, union_by_name = true, hive_partitioning = false)) r
WHERE stands(r.filename, r.file_id, r.line)
