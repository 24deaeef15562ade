-- name: fleet/hour_before
-- question: which requests did the hour before see? $files may be empty.
-- input: Parquet files $files
-- output: TEMP TABLE before
CREATE OR REPLACE TEMP TABLE before AS
SELECT DISTINCT request_id FROM read_parquet($files, union_by_name = true, hive_partitioning = false)
