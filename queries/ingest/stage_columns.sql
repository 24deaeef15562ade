-- name: ingest/stage_columns
-- The columns that the stage table $table got from its format.
SELECT column_name FROM duckdb_columns() WHERE database_name = 'stage' AND table_name = $table
