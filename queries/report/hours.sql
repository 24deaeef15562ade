-- name: hours
-- question: how do load, latency and failures run over the hours?
-- input: TEMP table request, one row a logical request
-- output: one row a clock hour (UTC), ms
SELECT date_trunc('hour', make_timestamp(arrival_ns // 1000)) AS hour_utc, count(*) AS requests,
       count(*) FILTER (status = 'error') AS errors, count(*) FILTER (status = 'censored') AS cut_short,
       round(quantile_cont(e2e_ns, 0.5) FILTER (status = 'ok') / 1e6, 1) AS e2e_p50_ms,
       CASE WHEN count(*) FILTER (status = 'ok') >= 20 THEN round(quantile_cont(e2e_ns, 0.95) FILTER (status = 'ok') / 1e6, 1) END AS e2e_p95_ms,
       CASE WHEN count(*) FILTER (status = 'ok') >= 100 THEN round(quantile_cont(e2e_ns, 0.99) FILTER (status = 'ok') / 1e6, 1) END AS e2e_p99_ms
FROM request WHERE arrival_ns IS NOT NULL AND NOT coalesce(cache_hit, FALSE)
GROUP BY hour_utc ORDER BY hour_utc
