-- name: recommend/scope
-- question: what did the first attempt do alone, where a copy was sent beside it?
-- input: request; $model, $route (NULL = all)
-- output: one row a logical request that has an arrival time, in the order of decompose/workload. NaN = not observed.
--         primary_status: 0 ok, 1 error, 2 censored (a primary that lost its race is only known to be longer)
SELECT model IS NULL AS unnamed, hedges,
       coalesce(primary_e2e_ns / 1e9, 'nan'::DOUBLE) AS primary_e2e_s,
       coalesce(primary_ttft_ns / 1e9, 'nan'::DOUBLE) AS primary_ttft_s,
       CASE primary_status WHEN 'ok' THEN 0 WHEN 'error' THEN 1 ELSE 2 END AS primary_status,
       hedge_won
FROM request
WHERE arrival_ns IS NOT NULL AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route)
ORDER BY arrival_ns, request_key;
