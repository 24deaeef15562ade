-- name: ingest/tables
-- One row a table of the open database (temporary and attached ones left out).
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT internal AND NOT temporary
