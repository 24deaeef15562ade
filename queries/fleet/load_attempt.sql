-- name: fleet/load_attempt
-- question: what do these parts hold?
-- input: Parquet files $files, cut
-- output: rows of attempt
INSERT INTO attempt BY NAME
SELECT * EXCLUDE (hour, filename)
FROM read_parquet($files, filename = true, union_by_name = true, hive_partitioning = false) r
WHERE NOT EXISTS (SELECT 1 FROM cut c WHERE c.part = r.filename AND c.file_id = r.file_id AND r.line > c.line)
