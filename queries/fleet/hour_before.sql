-- name: fleet/hour_before
-- question: which requests and turns did the hour before see, of which scope?
-- input: Parquet files $files
-- output: TEMP TABLE before
CREATE OR REPLACE TEMP TABLE before AS
SELECT DISTINCT request_id, turn_id, model, route FROM read_parquet($files, union_by_name = true, hive_partitioning = false)
