-- name: check/clock_skew
-- question: which attempts have a first token or an end before their start (two clocks)?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, replica, logged_ttft_ns, e2e_ns
FROM selected_attempt WHERE ttft_issue = 'clock_skew' OR e2e_ns < 0
ORDER BY request_key, attempt_no
