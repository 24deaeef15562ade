-- name: check/answer_without_time
-- question: which answered attempts have no duration, or one of zero without a response cache?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, e2e_ns
FROM selected_attempt
WHERE status = 'ok' AND (e2e_ns IS NULL OR e2e_ns = 0 AND NOT coalesce(cache_hit, FALSE))
ORDER BY request_key, attempt_no
