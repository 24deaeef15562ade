-- name: join/outer
-- question: which rows stay, because nobody further out has seen their requests?
-- input: attempt; $formats
-- output: TEMP TABLE joined_attempt, one row an attempt, columns of attempt with attempt_row
CREATE OR REPLACE TEMP TABLE joined_attempt AS SELECT rowid AS attempt_row, * FROM attempt WHERE list_contains($formats, format)
