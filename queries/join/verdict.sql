-- name: join/verdict
-- question: what became of each row of an inner format?
-- input: attempt, folded_attempt, join_found; $inner
-- output: rows of join_verdict; 'unmatched' = no outer row of its time has one of its ids
INSERT INTO join_verdict
SELECT $inner, a.rowid, f.outer_row, CASE WHEN f.verdict IS NULL OR f.verdict = 'far' THEN 'unmatched' ELSE f.verdict END
FROM attempt a LEFT JOIN join_found f ON f.inner_row = a.rowid
WHERE a.format = $inner AND a.rowid NOT IN (SELECT attempt_row FROM folded_attempt)
