-- name: join/counts
-- question: how much of both logs was put together, and what was left on either side?
-- input: attempt, folded_attempt, join_pair, join_verdict
-- output: one row an inner format, in the order in which they were joined; inner_rows = joined + parts + copies + too_long + ambiguous +
--         inner_unmatched
WITH told AS (
    SELECT inner_format, count(*) AS inner_rows, count(*) FILTER (verdict = 'joined') AS joined, count(*) FILTER (verdict = 'part') AS parts,
           count(*) FILTER (verdict = 'copy') AS copies, count(*) FILTER (verdict = 'too_long') AS too_long,
           count(*) FILTER (verdict = 'ambiguous') AS ambiguous, count(*) FILTER (verdict = 'unmatched') AS inner_unmatched
    FROM join_verdict GROUP BY inner_format
),
outside AS (
    SELECT p.inner_format, count(*) AS outer_rows
    FROM join_pair p JOIN attempt a ON list_contains(p.outer_formats, a.format)
    WHERE a.rowid NOT IN (SELECT attempt_row FROM folded_attempt) GROUP BY p.inner_format
)
SELECT array_to_string(p.outer_formats, ', ') AS outer_format, p.inner_format, o.outer_rows, t.inner_rows, t.joined, t.parts, t.copies,
       t.too_long, t.ambiguous, t.inner_unmatched, o.outer_rows - t.joined AS outer_unmatched
FROM join_pair p JOIN told t USING (inner_format) JOIN outside o USING (inner_format)
ORDER BY p.place
