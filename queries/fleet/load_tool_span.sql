-- name: fleet/load_tool_span
-- question: what do these parts hold? A span that several batches tell of counts once, as in a database.
-- input: Parquet files $files, macro stands
-- output: rows of tool_span
INSERT INTO tool_span BY NAME
SELECT DISTINCT ON (role, turn_id, tool, arrival_ns, e2e_ns) * EXCLUDE (filename)
FROM read_parquet($files, filename = true, union_by_name = true, hive_partitioning = false) r
WHERE stands(r.filename, r.file_id, r.line)
ORDER BY file_id, line, record
