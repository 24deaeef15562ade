-- name: check/faster_than_engines
-- question: which answers were written faster than any engine writes one: more than 10,000 tokens a second? a wrong unit, or a response
-- cache that the log does not tell
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, completion_tokens, e2e_ns
FROM selected_attempt
WHERE status = 'ok' AND completion_tokens >= 20 AND e2e_ns > 0 AND NOT coalesce(cache_hit, FALSE)
  AND completion_tokens * 100000.0 > e2e_ns
ORDER BY request_key, attempt_no
