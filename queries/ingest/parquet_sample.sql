-- name: ingest/parquet_sample
-- The first rows of a Parquet file as JSON objects. $path, $rows.
SELECT to_json(t) FROM read_parquet($path) t LIMIT $rows
