-- name: bands
-- question: what is the time of each percentile band of e2e made of?
-- input: TEMP tables request and component, one row a logical request
-- output: one row a band (0 = the fastest half), mean ms of each part; the parts sum to mean_ms. The last band begins at
--         the highest percentile beyond which at least one request lies.
WITH told AS (
    SELECT r.e2e_ns, r.weight AS w, c.queue_ns, c.prefill_ns, c.unsplit_ns, c.decode_ns, c.tool_wait_ns, c.other_ns,
           sum(r.weight) OVER (ORDER BY r.e2e_ns, r.request_key) / sum(r.weight) OVER () AS up_to,
           sum(r.weight) OVER () AS n
    FROM request r JOIN component c ON c.request_key = r.request_key
    WHERE r.status = 'ok' AND r.e2e_ns IS NOT NULL AND NOT coalesce(r.cache_hit, FALSE)
)
SELECT CASE WHEN up_to <= 0.5 OR n < 2 THEN 0 WHEN up_to <= 0.75 OR n < 4 THEN 1 WHEN up_to <= 0.9 OR n < 10 THEN 2
            WHEN up_to <= 0.95 OR n < 20 THEN 3 WHEN up_to <= 0.99 OR n < 100 THEN 4 ELSE 5 END AS band,
       count(*) AS requests, round(min(e2e_ns) / 1e6, 3) AS from_ms, round(max(e2e_ns) / 1e6, 3) AS to_ms,
       round(sum(w * e2e_ns) / sum(w) / 1e6, 3) AS mean_ms,
       round(sum(w * coalesce(queue_ns, 0)) / sum(w) / 1e6, 3) AS queue_ms,
       round(sum(w * coalesce(prefill_ns, 0)) / sum(w) / 1e6, 3) AS prefill_ms,
       round(sum(w * coalesce(unsplit_ns, 0)) / sum(w) / 1e6, 3) AS unsplit_ms,
       round(sum(w * coalesce(decode_ns, 0)) / sum(w) / 1e6, 3) AS decode_ms,
       round(sum(w * coalesce(tool_wait_ns, 0)) / sum(w) / 1e6, 3) AS tool_wait_ms,
       round(sum(w * coalesce(other_ns, 0)) / sum(w) / 1e6, 3) AS other_ms
FROM told GROUP BY band ORDER BY band
