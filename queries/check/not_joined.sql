-- name: check/not_joined
-- question: where several observers were joined, which rows have no counterpart (inner ones are kept out of the requests)?
-- input: attempt, observed, folded_attempt, join_pair, join_verdict
-- output: one row an attempt without a counterpart: side = inner | outer, why = unmatched | ambiguous | too_long; empty if nothing was joined
WITH left_over AS (
    SELECT inner_row AS attempt_row, 'inner' AS side, verdict AS why FROM join_verdict WHERE verdict IN ('unmatched', 'ambiguous', 'too_long')
    UNION ALL
    SELECT a.rowid, 'outer', 'unmatched'
    FROM attempt a JOIN (SELECT DISTINCT unnest(outer_formats) AS format FROM join_pair) USING (format)
    WHERE a.rowid NOT IN (SELECT outer_row FROM join_verdict WHERE verdict = 'joined')
      AND a.rowid NOT IN (SELECT attempt_row FROM folded_attempt)
)
SELECT a.file_id, a.line, l.side, a.format, a.request_id, l.why
FROM left_over l JOIN attempt a ON a.rowid = l.attempt_row
ORDER BY l.side, a.format, a.arrival_ns, a.file_id, a.line, a.record
