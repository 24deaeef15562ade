-- name: ingest/parquet_sample
-- The first rows of a Parquet file as JSON objects. $path, $rows. (A column may be called like any alias, so there is none.)
SELECT to_json(struct_pack(*COLUMNS(*))) FROM read_parquet($path) LIMIT $rows
