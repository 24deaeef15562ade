-- name: decompose/workload_facts
-- question: what else must a replay know about one scope?
-- input: request; $model, $route (NULL = all)
-- output: one row
SELECT count(*) AS requests,
       min(arrival_ns) AS t0_ns,
       coalesce(sum(attempts), 0)::BIGINT AS attempts,
       coalesce(sum(hedges), 0)::BIGINT AS hedges,
       coalesce(sum(retries), 0)::BIGINT AS retries,
       coalesce(bool_or(closed_loop), FALSE) AS closed_loop,
       max(currency) AS currency
FROM request
WHERE arrival_ns IS NOT NULL AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route);
