-- name: check/time_out_of_range
-- question: which attempts were sent before 2015 or after 2100, or took more than a week (a unit read wrongly)?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, arrival_ns, e2e_ns
FROM selected_attempt
WHERE arrival_ns < 1420070400000000000 OR arrival_ns > 4102444800000000000 OR e2e_ns > 604800000000000
ORDER BY request_key, attempt_no
