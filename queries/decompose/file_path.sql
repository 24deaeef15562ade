-- name: decompose/file_path
-- question: which path stands behind a file number?
-- input: ingested_file
-- output: one row a file
SELECT file_id, path FROM ingested_file ORDER BY file_id;
