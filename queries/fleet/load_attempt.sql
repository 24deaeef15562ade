-- name: fleet/load_attempt
-- question: what do these parts hold?
-- input: Parquet files $files, macro stands
-- output: rows of attempt
INSERT INTO attempt BY NAME
SELECT * EXCLUDE (hour, filename)
FROM read_parquet($files, filename = true, union_by_name = true, hive_partitioning = false) r
WHERE stands(r.filename, r.file_id, r.line)
