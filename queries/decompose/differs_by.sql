-- name: decompose/differs_by
-- question: which kinds of requests are over- or under-represented among the slow ones?
-- input: request, request_dimension
-- output: one row a field and value with at least 30 requests: requests, slow requests, and the totals of the field
-- parameters: threshold_ns, use_ttft
WITH told AS (
    UNPIVOT (
        SELECT CASE WHEN $use_ttft THEN r.ttft_ns ELSE r.e2e_ns END > $threshold_ns AS slow, r.weight,
               d.model, d.route, d.segment, d.provider, d.pool, d.hour, d.streamed, d.tools_offered, d.size_class
        FROM request r JOIN request_dimension d ON d.request_key = r.request_key
        WHERE r.status = 'ok' AND NOT coalesce(r.cache_hit, FALSE)
          AND CASE WHEN $use_ttft THEN r.ttft_ns ELSE r.e2e_ns END IS NOT NULL
    ) ON model, route, segment, provider, pool, hour, streamed, tools_offered, size_class INTO NAME field VALUE value
),
counted AS (
    SELECT field, value, count(*) AS requests, count(*) FILTER (slow) AS slow FROM told GROUP BY field, value
)
SELECT field, value, requests, slow, sum(requests) OVER (PARTITION BY field) AS field_requests,
       sum(slow) OVER (PARTITION BY field) AS field_slow, count(*) OVER (PARTITION BY field) AS field_values
FROM counted QUALIFY requests >= 30 AND field_values > 1 AND field_slow > 0
ORDER BY field, value;
