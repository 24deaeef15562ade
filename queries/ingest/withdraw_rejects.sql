-- name: ingest/withdraw_rejects
-- As withdraw, for rejects.
DELETE FROM reject WHERE file_id = $file AND line > $line
