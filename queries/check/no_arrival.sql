-- name: check/no_arrival
-- question: which attempts have no time of sending: they count in percentiles, not in load or order?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, e2e_ns
FROM selected_attempt WHERE arrival_ns IS NULL
ORDER BY request_key, attempt_no
