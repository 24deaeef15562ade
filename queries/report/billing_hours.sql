-- name: report/billing_hours
-- question: how many requests a quarter of an hour were there, and when did copies begin?
-- input: TEMP table request
-- output: one row a quarter of an hour (UTC, number since the epoch) that has requests; first_copy is NULL without copies
SELECT arrival_ns // 900000000000 AS quarter, count(*) AS requests,
       min(CASE WHEN hedges > 0 THEN arrival_ns END) AS first_copy_ns
FROM request
WHERE arrival_ns IS NOT NULL
GROUP BY quarter
ORDER BY quarter;
