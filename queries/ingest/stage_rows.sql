-- name: ingest/stage_rows
-- The same rows one by one: position, what each says it is (0 attempt, 1 tool, 2 reject, 3 no request), and why.
SELECT line, record,
       CASE coalesce(kind, 'attempt') WHEN 'attempt' THEN 0 WHEN 'tool' THEN 1 WHEN 'reject' THEN 2 ELSE 3 END::TINYINT AS kind, reason
FROM staged_here WHERE line BETWEEN $low AND $high
