-- name: check/ttft_is_zero
-- question: which attempts log the first token at the very start?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, logged_ttft_ns, e2e_ns
FROM selected_attempt WHERE ttft_issue = 'ttft_is_zero'
ORDER BY request_key, attempt_no
