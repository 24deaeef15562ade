-- name: check/parts_exceed_e2e
-- question: which attempts log parts longer than the whole, one alone or all together?
-- input: selected_attempt, attempt, join_verdict
-- output: one row an offending attempt. A first token as the caller saw it is not held against an engine's decode: the two overlap.
WITH joined AS (
    SELECT o.file_id, o.line, o.record, TRUE AS is_joined
    FROM join_verdict v JOIN attempt o ON o.rowid = v.outer_row WHERE v.verdict = 'joined'
)
SELECT file_id, line, request_id, e2e_ns, queue_ns, prefill_ns, decode_ns, tool_wait_ns
FROM selected_attempt LEFT JOIN joined USING (file_id, line, record)
WHERE part_issue = 'part_exceeds_e2e'
   OR part_issue IS NULL
      AND greatest(coalesce(queue_ns, 0) + coalesce(prefill_ns, 0),
                   CASE WHEN ttft_basis IS DISTINCT FROM 'engine' AND is_joined IS NULL THEN coalesce(ttft_ns, 0) ELSE 0 END)
          + coalesce(decode_ns, 0) + coalesce(tool_wait_ns, 0)
          > e2e_ns + 4 * coalesce(resolution_ns, 1) + e2e_ns // 1000  -- parts timed by different hands of one engine differ by microseconds
ORDER BY request_key, attempt_no
