-- name: observed
-- question: which share of requests has what the answers rest on?
-- input: TEMP table request, one row a logical request
-- output: one row a field: requests in which it is observed, and requests that could have it
WITH served AS (SELECT * FROM request WHERE NOT coalesce(cache_hit, FALSE)),
answered AS (SELECT * FROM served WHERE status = 'ok'),
told AS (
    SELECT 0 AS place, 'arrival' AS field, count(arrival_ns) AS observed, count(*) AS requests FROM served
    UNION ALL SELECT 1, 'e2e', count(e2e_ns), count(*) FROM answered
    UNION ALL SELECT 2, 'TTFT (streams)', count(ttft_ns), count(*) FROM answered WHERE coalesce(streamed, TRUE)
    UNION ALL SELECT 3, 'queue', count(queue_ns), count(*) FROM answered
    UNION ALL SELECT 4, 'prefill', count(prefill_ns), count(*) FROM answered
    UNION ALL SELECT 5, 'replica', count(replica), count(*) FROM served
    UNION ALL SELECT 6, 'prompt tokens', count(prompt_tokens), count(*) FROM served
    UNION ALL SELECT 7, 'cached tokens', count(cached_tokens), count(*) FROM served
    UNION ALL SELECT 8, 'completion tokens', count(completion_tokens), count(*) FROM answered
    UNION ALL SELECT 9, 'cost', count(cost), count(*) FROM answered
    UNION ALL SELECT 10, 'streamed or not', count(streamed), count(*) FROM served
    UNION ALL SELECT 11, 'tools offered or not', count(tools_offered), count(*) FROM served
)
SELECT field, observed, requests FROM told ORDER BY place
