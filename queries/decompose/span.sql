-- name: decompose/span
-- question: when were the first and the newest attempt sent, and how many rows have no time?
-- input: observed
-- output: one row: first_ns, newest_ns, attempts, without_time
SELECT min(arrival_ns) AS first_ns, max(arrival_ns) AS newest_ns, count(*) AS attempts,
       count(*) FILTER (arrival_ns IS NULL) AS without_time
FROM observed;
