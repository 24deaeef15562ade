-- name: join/seen
-- question: which formats does the database hold, who timed their rows, and which time do they cover?
-- input: attempt
-- output: one row a format: format, observer, attempts, low and high (first and last arrival, NULL where no row has one),
--         with_arrival and with_e2e (rows that have it)
SELECT format, mode(observer) AS observer, count(*) AS attempts, min(arrival_ns) AS low, max(arrival_ns) AS high,
       count(arrival_ns) AS with_arrival, count(e2e_ns) AS with_e2e
FROM attempt GROUP BY format ORDER BY format
