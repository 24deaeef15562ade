-- name: join/known
-- question: have the rows of this database been put together since the last change?
-- input: none
-- output: one row: found
SELECT count(*) > 0 AS found FROM duckdb_views() WHERE view_name = 'observed' AND temporary
