-- name: fleet/hour_before
-- question: which requests and turns did the hour before see, of which scope?
-- input: Parquet files $files, attempt (for columns that no file has); $any: whether there was one
-- output: TEMP TABLE before
CREATE OR REPLACE TEMP TABLE before AS
SELECT request_id, turn_id, hash(model, route) AS scope
FROM (FROM attempt WHERE false UNION ALL BY NAME FROM read_parquet($files, union_by_name = true, hive_partitioning = false)) WHERE $any
