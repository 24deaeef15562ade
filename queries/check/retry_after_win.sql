-- name: check/retry_after_win
-- question: which retries were sent although another attempt of the request had answered already?
-- input: selected_attempt
-- output: one row an offending retry: its client was not told that a copy had won
SELECT r.file_id, r.line, r.request_id, r.attempt_no, r.replica
FROM selected_attempt r JOIN selected_attempt w ON w.request_key = r.request_key AND w.won
WHERE r.cause = 'retry' AND r.arrival_ns >= w.end_ns AND r.attempt_no <> w.attempt_no
ORDER BY r.request_key, r.attempt_no
