-- name: decompose/idle_arrival
-- question: how long to the first token when nobody on that replica was waiting for one?
-- input: selected_attempt
-- output: one row an attempt that found no other request awaiting its first token on its replica:
--         model, prompt tokens to compute, TTFT; in order of arrival
-- parameters: assume_uncached (TRUE = the operator declared that there is no prefix cache)
-- An attempt whose first token is unknown counts as waiting until its end: no row too many.
WITH waiting AS (
    SELECT request_key, attempt_no, model, status, ttft_ns, ttft_basis, arrival_ns,
           coalesce(cache_hit, FALSE) AS cache_hit,
           prompt_tokens - CASE WHEN $assume_uncached THEN coalesce(cached_tokens, 0) ELSE cached_tokens END AS uncached_tokens,
           max(arrival_ns + coalesce(ttft_ns, e2e_ns)) OVER (
               PARTITION BY replica ORDER BY arrival_ns, request_key, attempt_no
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS waited_until_ns
    FROM selected_attempt
    WHERE replica IS NOT NULL AND arrival_ns IS NOT NULL AND NOT coalesce(cache_hit, FALSE)
)
SELECT coalesce(model, '') AS model, uncached_tokens, ttft_ns
FROM waiting
WHERE status = 'ok' AND ttft_ns IS NOT NULL AND ttft_basis IS DISTINCT FROM 'first_byte' AND uncached_tokens >= 0
  AND (waited_until_ns IS NULL OR waited_until_ns <= arrival_ns)
ORDER BY arrival_ns, request_key, attempt_no;
