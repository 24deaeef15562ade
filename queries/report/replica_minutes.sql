-- name: replica_minutes
-- question: in which minutes was which replica slow (median and worst e2e, against all replicas in that minute)?
-- input: TEMP table selected_attempt, one row an attempt
-- output: one row a minute and replica, the worst ratio first, ms; at most 200 rows
WITH told AS (
    SELECT time_bucket(INTERVAL 1 MINUTE, make_timestamp(arrival_ns // 1000)) AS minute_utc, replica, e2e_ns
    FROM selected_attempt
    WHERE status = 'ok' AND replica IS NOT NULL AND arrival_ns IS NOT NULL AND e2e_ns IS NOT NULL AND NOT coalesce(cache_hit, FALSE)
),
everybody AS (SELECT minute_utc, median(e2e_ns) AS all_ns FROM told GROUP BY minute_utc)
SELECT minute_utc, replica, count(*) AS attempts, round(median(e2e_ns) / 1e6, 1) AS median_ms, round(max(e2e_ns) / 1e6, 1) AS worst_ms,
       round(any_value(all_ns) / 1e6, 1) AS all_replicas_median_ms, round(median(e2e_ns) / nullif(any_value(all_ns), 0), 2) AS ratio
FROM told JOIN everybody USING (minute_utc)
GROUP BY minute_utc, replica
ORDER BY ratio DESC NULLS LAST, minute_utc, replica
LIMIT 200
