-- name: decompose/output_length
-- question: how long was each answer, by token count or else by the bytes of its stream?
-- input: request
-- output: TEMP TABLE output_length, one row a logical request: output_tokens (NULL = not known), output_basis
-- parameters: bytes_per_token (NULL = bytes must not stand in)
-- With no token count anywhere bytes_per_token is 1: a length in bytes, good for comparing answers of one log.
CREATE OR REPLACE TEMP TABLE output_length AS
SELECT request_key,
       CASE WHEN completion_tokens IS NOT NULL THEN completion_tokens
            WHEN streamed AND response_bytes > 0 THEN response_bytes / $bytes_per_token::DOUBLE END AS output_tokens,
       CASE WHEN completion_tokens IS NOT NULL THEN 'measured'
            WHEN streamed AND response_bytes > 0 AND $bytes_per_token IS NOT NULL THEN 'estimated' ELSE 'unknown' END AS output_basis
FROM request ORDER BY request_key;
