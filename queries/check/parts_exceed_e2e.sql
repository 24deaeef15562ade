-- name: check/parts_exceed_e2e
-- question: which attempts log parts longer than the whole, one alone or all together?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, e2e_ns, queue_ns, prefill_ns, decode_ns, tool_wait_ns
FROM selected_attempt
WHERE part_issue = 'part_exceeds_e2e'
   OR part_issue IS NULL
      AND greatest(coalesce(queue_ns, 0) + coalesce(prefill_ns, 0), CASE WHEN ttft_basis IS DISTINCT FROM 'engine' THEN coalesce(ttft_ns, 0) ELSE 0 END) + coalesce(decode_ns, 0) + coalesce(tool_wait_ns, 0)
          > e2e_ns + 4 * coalesce(resolution_ns, 1) + e2e_ns // 1000  -- parts timed by different hands of one engine differ by microseconds
ORDER BY request_key, attempt_no
