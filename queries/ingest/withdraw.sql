-- name: ingest/withdraw
-- A last line without a newline is read again when its file has grown: what it gave before goes.
DELETE FROM attempt WHERE file_id = $file AND line > $line
