-- name: decompose/workload_attempts
-- question: what did each engine really have to serve, copies and retries included?
-- input: request, selected_attempt; $model, $route (NULL = all)
-- output: one row an attempt of the scope's requests in order of arrival, no NULLs; same codes and origin of time as
--         decompose/workload
WITH scoped AS (
    SELECT request_key, arrival_ns FROM request
    WHERE arrival_ns IS NOT NULL AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route)
),
origin AS (SELECT min(arrival_ns) AS t0_ns FROM scoped),
replica_code AS (
    SELECT replica AS name, row_number() OVER (ORDER BY replica) - 1 AS code
    FROM (SELECT DISTINCT replica FROM selected_attempt
          WHERE replica IS NOT NULL AND ($model IS NULL OR model = $model OR model IS NULL)
            AND ($route IS NULL OR route = $route OR route IS NULL))
)
SELECT (a.arrival_ns - o.t0_ns) / 1e9 AS arrival_s,
       coalesce(a.prompt_tokens, p.prompt_tokens, -1) AS prompt_tokens,
       coalesce(a.cached_tokens, -1) AS cached_tokens,
       coalesce(a.completion_tokens, -1) AS completion_tokens,
       coalesce(a.ttft_ns / 1e9, 'nan'::DOUBLE) AS ttft_s,
       coalesce(a.e2e_ns / 1e9, 'nan'::DOUBLE) AS e2e_s,
       CASE WHEN a.queue_basis IN ('measured', 'derived') AND a.queue_ns IS NOT NULL THEN a.queue_ns / 1e9 ELSE 'nan'::DOUBLE END AS queue_s,
       CASE WHEN a.prefill_basis IN ('measured', 'derived') AND a.prefill_ns IS NOT NULL THEN a.prefill_ns / 1e9 ELSE 'nan'::DOUBLE END AS prefill_s,
       CASE WHEN a.decode_basis IN ('measured', 'derived') AND a.decode_ns IS NOT NULL THEN a.decode_ns / 1e9 ELSE 'nan'::DOUBLE END AS decode_s,
       CASE a.status WHEN 'ok' THEN 0 WHEN 'error' THEN 1 ELSE 2 END AS status,
       coalesce(rc.code, -1) AS replica,
       coalesce(a.cache_hit::TINYINT, -1) AS cache_hit
FROM selected_attempt a
JOIN scoped s USING (request_key)
LEFT JOIN (SELECT request_key, max(prompt_tokens) AS prompt_tokens FROM selected_attempt GROUP BY request_key) p USING (request_key)
CROSS JOIN origin o
LEFT JOIN replica_code rc ON rc.name = a.replica
WHERE a.arrival_ns IS NOT NULL
ORDER BY a.arrival_ns, a.request_key, a.attempt_no;
