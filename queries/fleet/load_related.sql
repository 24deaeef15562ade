-- name: fleet/load_related
-- question: which attempts of other scopes belong to the requests and agent turns of the scope that is loaded?
-- input: Parquet files $files of other scopes, macro stands, attempt (the scope)
-- output: rows of attempt
INSERT INTO attempt BY NAME
WITH wanted AS MATERIALIZED (SELECT DISTINCT request_id FROM attempt), turns AS MATERIALIZED (SELECT DISTINCT turn_id FROM attempt WHERE turn_id IS NOT NULL)
SELECT * EXCLUDE (hour, filename)
FROM (FROM attempt WHERE false UNION ALL BY NAME FROM read_parquet($files, filename = true, union_by_name = true, hive_partitioning = false)) r
WHERE (request_id IN (FROM wanted) OR turn_id IN (FROM turns))
  AND stands(r.filename, r.file_id, r.line)
