-- name: check/tokens_out_of_range
-- question: which attempts log token counts that no model can have (below 0, above ten million)?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens
FROM selected_attempt
WHERE least(prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens) < 0
   OR greatest(prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens) > 10000000
ORDER BY request_key, attempt_no
