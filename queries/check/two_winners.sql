-- name: check/two_winners
-- question: which requests have several attempts that the log itself calls the winner?
-- input: attempt, attempt_link, request
-- output: one row an offending request
SELECT r.file_id, r.line, r.request_id, count(*) AS winners
FROM attempt a JOIN attempt_link l ON a.rowid = l.attempt_row JOIN request r ON r.request_key = l.request_key
WHERE a.won GROUP BY r.request_key, r.file_id, r.line, r.request_id HAVING count(*) > 1
ORDER BY r.request_key
