-- name: switchback_requests
-- question: what did each logical request of a scope experience, for a comparison of blocks with hedging on and off?
-- input: TEMP table request, one row a logical request; $model and $route restrict it (NULL = all)
-- output: one row a logical request in order of arrival; ns, counts, money
SELECT
    arrival_ns,
    coalesce(e2e_ns, -1)                             AS e2e_ns,
    coalesce(ttft_ns, -1)                            AS ttft_ns,
    status,
    coalesce(attempts, 1)                            AS attempts,
    coalesce(hedges, 0)                              AS hedges,
    coalesce(hedge_won, false)                       AS hedge_won,
    CAST(cost AS DOUBLE)                             AS cost
FROM request
WHERE arrival_ns IS NOT NULL
  AND NOT coalesce(cache_hit, false)
  AND ($model IS NULL OR model = $model)
  AND ($route IS NULL OR route = $route)
ORDER BY arrival_ns, request_id
