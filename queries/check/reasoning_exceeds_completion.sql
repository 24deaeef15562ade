-- name: check/reasoning_exceeds_completion
-- question: which attempts have more reasoning than completion tokens (are they beside the completion count)?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, completion_tokens, reasoning_tokens
FROM selected_attempt WHERE reasoning_tokens > completion_tokens
ORDER BY request_key, attempt_no
