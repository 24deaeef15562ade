-- name: check/ttft_equals_e2e
-- question: which attempts log the first token at the end although the answer has more than one?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, logged_ttft_ns, e2e_ns, completion_tokens
FROM selected_attempt WHERE ttft_issue = 'ttft_equals_e2e'
ORDER BY request_key, attempt_no
