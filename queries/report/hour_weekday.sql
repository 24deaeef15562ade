-- name: hour_weekday
-- question: at which hours of which weekdays are requests slow?
-- input: TEMP table request, one row a logical request
-- output: one row a weekday (1 = Monday) and hour in $tz that has requests: requests, slow ones, and on how many days
-- parameters (NULL = default): tz (UTC), threshold_ns (p95)
WITH told AS (
    SELECT timezone(coalesce($tz, 'UTC'), to_timestamp(arrival_ns // 1000000000)) AS local_time, e2e_ns FROM request
    WHERE arrival_ns IS NOT NULL AND e2e_ns IS NOT NULL AND status <> 'error' AND NOT coalesce(cache_hit, FALSE)
),
frame AS (SELECT coalesce($threshold_ns, quantile_cont(e2e_ns, 0.95)) AS threshold_ns FROM told)
SELECT isodow(local_time)::INTEGER AS weekday, hour(local_time)::INTEGER AS hour, count(*) AS requests,
       count(*) FILTER (e2e_ns > threshold_ns) AS slow, count(DISTINCT local_time::DATE) AS days
FROM told, frame GROUP BY weekday, hour ORDER BY weekday, hour
