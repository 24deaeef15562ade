-- name: check/queue_exceeds_ttft
-- question: which attempts log a queue or prefill longer than the time to their first token?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, queue_ns, prefill_ns, ttft_ns
FROM selected_attempt
WHERE coalesce(queue_ns, 0) + coalesce(prefill_ns, 0) > ttft_ns + 2 * coalesce(resolution_ns, 1)
ORDER BY request_key, attempt_no
