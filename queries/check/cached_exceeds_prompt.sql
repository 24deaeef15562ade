-- name: check/cached_exceeds_prompt
-- question: which attempts have more cached than prompt tokens (are cached tokens beside the prompt count)?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, prompt_tokens, cached_tokens
FROM selected_attempt WHERE cached_tokens > prompt_tokens
ORDER BY request_key, attempt_no
