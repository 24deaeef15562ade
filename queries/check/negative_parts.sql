-- name: check/negative_parts
-- question: which attempts log a part of their time below zero?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, queue_ns, prefill_ns, decode_ns, tool_wait_ns
FROM selected_attempt WHERE part_issue = 'negative_part'
ORDER BY request_key, attempt_no
