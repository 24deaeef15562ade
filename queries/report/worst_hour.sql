-- name: worst_hour
-- question: which hour (beginning at any ten minutes) saw the most slow attempts?
-- input: TEMP table selected_attempt, one row an attempt
-- output: at most one row: the beginning of the hour in UTC ns, attempts and slow attempts in it
-- parameters (NULL = default): threshold_ns (p95)
WITH told AS (
    SELECT arrival_ns, e2e_ns FROM selected_attempt
    WHERE replica IS NOT NULL AND arrival_ns IS NOT NULL AND e2e_ns IS NOT NULL AND status <> 'error'
      AND NOT coalesce(cache_hit, FALSE)
),
frame AS (SELECT coalesce($threshold_ns, quantile_cont(e2e_ns, 0.95)) AS threshold_ns FROM told),
piece AS (
    SELECT arrival_ns // 600000000000 AS ten, count(*) AS attempts, count(*) FILTER (e2e_ns > threshold_ns) AS slow
    FROM told, frame GROUP BY ten
)
SELECT (a.ten * 600000000000)::BIGINT AS from_ns, sum(b.attempts)::BIGINT AS attempts, sum(b.slow)::BIGINT AS slow
FROM piece a JOIN piece b ON b.ten >= a.ten AND b.ten < a.ten + 6
GROUP BY a.ten ORDER BY slow DESC, a.ten LIMIT 1
