-- name: fleet/known
-- question: which columns does this log know anything of?
-- input: attempt
-- output: one row: how many values each column has, in the order of the table
SELECT count(COLUMNS(*)) FROM attempt
