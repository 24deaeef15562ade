-- name: recommend/scope
-- question: which scope does each request belong to?
-- input: request
-- output: one row a logical request that has an arrival time, in the order of decompose/workload; model and route as codes
--         into recommend/scope_name, -1 = not logged; hedges = copies that were sent
WITH models AS (SELECT model, row_number() OVER (ORDER BY model) - 1 AS code FROM (SELECT DISTINCT model FROM request WHERE model IS NOT NULL)),
routes AS (SELECT route, row_number() OVER (ORDER BY route) - 1 AS code FROM (SELECT DISTINCT route FROM request WHERE route IS NOT NULL))
SELECT coalesce(models.code, -1) AS model, coalesce(routes.code, -1) AS route, r.hedges, coalesce(r.closed_loop, FALSE)::TINYINT AS closed_loop
FROM request r
LEFT JOIN models ON models.model = r.model
LEFT JOIN routes ON routes.route = r.route
WHERE r.arrival_ns IS NOT NULL
ORDER BY r.arrival_ns, r.request_key;
