-- name: check/reused_request_ids
-- question: which requests carry the id of an earlier request that had been answered?
-- input: request
-- output: one row an offending request
SELECT file_id, line, request_id, generation, arrival_ns
FROM request WHERE generation > 0
ORDER BY request_key
