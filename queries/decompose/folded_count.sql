-- name: decompose/folded_count
-- question: how many spans were folded into another one?
-- input: folded_attempt
-- output: one row: spans
SELECT count(*) AS spans FROM folded_attempt;
