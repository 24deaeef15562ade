-- name: check/duplicate_ids
-- question: which attempt ids stand on rows of different content?
-- input: selected_attempt
-- output: one row an offending attempt after the first of its id
SELECT file_id, line, request_id, attempt_id, arrival_ns
FROM selected_attempt
WHERE attempt_id IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY format, attempt_id ORDER BY arrival_ns, file_id, line, record) > 1
    AND min(content_hash) OVER (PARTITION BY format, attempt_id) IS DISTINCT FROM max(content_hash) OVER (PARTITION BY format, attempt_id)
ORDER BY request_key, attempt_no
