-- name: check/joined_too_long
-- question: which rows are longer than the row of the outer observer they should lie in (not joined)?
-- input: attempt, join_verdict
-- output: one row an offending attempt of the inner observer; empty if nothing was joined
SELECT i.file_id, i.line, i.request_id, i.e2e_ns, o.file_id AS other_file_id, o.line AS other_line, o.e2e_ns AS other_e2e_ns
FROM join_verdict v JOIN attempt i ON i.rowid = v.inner_row JOIN attempt o ON o.rowid = v.outer_row
WHERE v.verdict = 'too_long'
ORDER BY i.arrival_ns, i.file_id, i.line, i.record
