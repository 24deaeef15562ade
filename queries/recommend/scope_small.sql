-- name: recommend/scope_small
-- question: what do the scopes hold that have fewer requests than are needed?
-- input: request; $by_route, $needed
-- output: one row a scope (as in recommend/scope_list), largest first. Counts are of requests that reached an engine, and,
--         where a copy was sent beside it, of the first attempt alone (as in recommend/scope)
WITH seen AS (
    SELECT *, CASE WHEN $by_route THEN route END AS of_route, hedges > 0 AS raced, coalesce(cache_hit, FALSE) AS hit,
           CASE WHEN hedges > 0 THEN primary_status ELSE status END AS alone_status,
           CASE WHEN hedges > 0 THEN primary_e2e_ns ELSE e2e_ns END AS alone_e2e_ns,
           CASE WHEN hedges > 0 THEN primary_ttft_ns ELSE ttft_ns END AS alone_ttft_ns,
           CASE WHEN hedges > 0 AND hedge_won THEN NULL ELSE headers_ns END AS alone_headers_ns
    FROM request
    WHERE arrival_ns IS NOT NULL
)
SELECT model, of_route AS route,
       count(*) FILTER (NOT hit) AS requests,
       count(*) FILTER (NOT hit AND alone_status = 'ok' AND alone_e2e_ns IS NOT NULL) AS answered,
       count(*) FILTER (NOT hit AND raced) AS raced,
       count(*) FILTER (hit) AS cache_hits,
       coalesce(bool_or(closed_loop), FALSE) AS closed_loop,
       count(alone_e2e_ns) FILTER (NOT hit AND alone_status IS DISTINCT FROM 'error') AS e2e,
       count(alone_ttft_ns) FILTER (NOT hit) AS ttft,
       count(alone_headers_ns) FILTER (NOT hit) AS headers,
       count(queue_ns) FILTER (NOT hit AND queue_basis IN ('measured', 'derived')) AS queue,
       count(prefill_ns) FILTER (NOT hit AND prefill_basis IN ('measured', 'derived')) AS prefill,
       count(decode_ns) FILTER (NOT hit AND decode_basis IN ('measured', 'derived')) AS decode,
       count(primary_replica) FILTER (NOT hit) AS replica,
       count(prompt_tokens) FILTER (NOT hit) AS prompt_tokens,
       count(completion_tokens) FILTER (NOT hit) AS completion_tokens,
       count(cost) FILTER (NOT hit) AS cost
FROM seen
GROUP BY model, of_route
HAVING count(*) < $needed
ORDER BY count(*) DESC, model NULLS LAST, of_route NULLS LAST;
