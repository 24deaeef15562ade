-- name: fleet/hour_rows
-- question: what do the parts of one hour hold, as far as repetitions and counts are concerned?
-- input: Parquet files $files, attempt (for columns that no file has), cut
-- output: TEMP TABLE fleet_row, one row an attempt
CREATE OR REPLACE TEMP TABLE fleet_row AS
SELECT file_id, line, record, format, request_id, attempt_id, turn_id, hash(model, route) AS scope, content_hash, observer, arrival_ns, e2e_ns, ttft_ns,
       queue_ns, prefill_ns, decode_ns, tool_wait_ns, replica, prompt_tokens, completion_tokens, cost
FROM (FROM attempt WHERE false UNION ALL BY NAME FROM read_parquet($files, filename = true, union_by_name = true, hive_partitioning = false)) r
WHERE NOT EXISTS (SELECT 1 FROM cut c WHERE c.part = r.filename AND c.file_id = r.file_id AND r.line > c.line)
