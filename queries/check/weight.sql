-- name: check/weight
-- question: which rows stand for less than themselves, or for a number that is none?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, weight
FROM selected_attempt WHERE weight < 1 OR NOT isfinite(weight)
ORDER BY request_key, attempt_no
