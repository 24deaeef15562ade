-- name: decompose/speed
-- question: how many tokens a second do answers of some length usually get? check/faster_than_engines names those above what engines do
-- input: selected_attempt
-- output: one row; NULL without such answers
SELECT median(completion_tokens * 1e9 / e2e_ns) AS tokens_per_s
FROM selected_attempt
WHERE status = 'ok' AND completion_tokens >= 20 AND e2e_ns > 0 AND NOT coalesce(cache_hit, FALSE)
