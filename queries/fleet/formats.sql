-- name: fleet/formats
-- question: from when to when does each format speak, and who timed it?
-- input: attempt
-- output: one row a format with a time
SELECT format, arg_min(observer, arrival_ns), min(arrival_ns), max(arrival_ns) FROM attempt WHERE arrival_ns IS NOT NULL GROUP BY format
