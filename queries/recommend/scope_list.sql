-- name: recommend/scope_list
-- question: for which scopes is there something to decide?
-- input: request; $by_route
-- output: one row a scope (model, route; NULL = not logged, or any route), largest first
SELECT model, CASE WHEN $by_route THEN route END AS route, count(*) AS requests
FROM request
WHERE arrival_ns IS NOT NULL
GROUP BY ALL
ORDER BY requests DESC, model NULLS LAST, route NULLS LAST;
