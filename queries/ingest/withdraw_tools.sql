-- name: ingest/withdraw_tools
-- As withdraw, for tool spans.
DELETE FROM tool_span WHERE file_id = $file AND line > $line
