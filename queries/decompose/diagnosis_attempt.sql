-- name: decompose/diagnosis_attempt
-- question: when did each attempt reach which replica and pool, and how long did it take?
-- input: selected_attempt, request
-- output: one row an attempt that an engine served, with a replica and a time, in order of arrival; codes are dense in name order
-- A censored attempt counts with its bound: it is slow once the bound is.
WITH replicas AS (SELECT replica, row_number() OVER (ORDER BY replica) - 1 AS code FROM (SELECT DISTINCT replica FROM selected_attempt WHERE replica IS NOT NULL)),
pools AS (SELECT pool, row_number() OVER (ORDER BY pool) - 1 AS code FROM (SELECT DISTINCT pool FROM selected_attempt WHERE pool IS NOT NULL)),
models AS (SELECT model, row_number() OVER (ORDER BY model) AS code FROM (SELECT DISTINCT model FROM selected_attempt WHERE model IS NOT NULL))
SELECT a.arrival_ns, a.e2e_ns, CASE WHEN a.ttft_ns IS NULL AND a.status = 'censored' AND coalesce(a.streamed, TRUE) THEN a.e2e_ns ELSE a.ttft_ns END AS ttft_ns,
       CASE a.status WHEN 'ok' THEN 0 ELSE 2 END AS status,
       replicas.code AS replica, pools.code AS pool, coalesce(models.code, 0) AS model,
       coalesce(a.completion_tokens, o.output_tokens) AS output_tokens,
       a.prompt_tokens - coalesce(a.cached_tokens, 0) AS uncached_tokens
FROM selected_attempt a
JOIN replicas ON replicas.replica = a.replica
LEFT JOIN pools ON pools.pool = a.pool
LEFT JOIN models ON models.model = a.model
LEFT JOIN output_length o ON o.request_key = a.request_key
WHERE a.status <> 'error' AND a.arrival_ns IS NOT NULL AND a.e2e_ns IS NOT NULL AND NOT coalesce(a.cache_hit, FALSE)
ORDER BY a.arrival_ns, a.request_key, a.attempt_no;
