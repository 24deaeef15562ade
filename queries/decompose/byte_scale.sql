-- name: decompose/byte_scale
-- question: how many response bytes is one output token, and how far off is that scale?
-- input: request
-- output: one row: rows with both, rows with bytes only, rows with tokens, bytes per token (ratio of sums), median and p90 relative error
WITH both_known AS (
    SELECT response_bytes, completion_tokens FROM request
    WHERE status = 'ok' AND streamed AND response_bytes > 0 AND completion_tokens > 0
),
scale AS (SELECT sum(response_bytes) / sum(completion_tokens) AS bytes_per_token FROM both_known)
SELECT (SELECT count(*) FROM both_known) AS both_rows,
       (SELECT count(*) FROM request WHERE status = 'ok' AND streamed AND response_bytes > 0 AND completion_tokens IS NULL) AS bytes_only_rows,
       (SELECT count(*) FROM request WHERE status = 'ok' AND completion_tokens IS NOT NULL) AS token_rows,
       any_value(s.bytes_per_token) AS bytes_per_token,
       median(abs(b.response_bytes / s.bytes_per_token / b.completion_tokens - 1)) AS median_error
FROM scale s LEFT JOIN both_known b ON TRUE;
