-- name: check/copy_on_same_replica
-- question: which hedges went to the replica that already had the request?
-- input: selected_attempt
-- output: one row an offending hedge
SELECT h.file_id, h.line, h.request_id, h.replica
FROM selected_attempt h JOIN selected_attempt p ON p.request_key = h.request_key AND p.attempt_no = 0
WHERE h.cause = 'hedge' AND h.attempt_no > 0 AND h.replica = p.replica
ORDER BY h.request_key, h.attempt_no
