-- name: check/ttft_after_end
-- question: which attempts log their first token after their last?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, logged_ttft_ns, e2e_ns
FROM selected_attempt WHERE ttft_issue = 'ttft_after_end'
ORDER BY request_key, attempt_no
