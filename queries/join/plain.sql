-- name: join/plain
-- question: which attempts are looked at, if every request was seen by one observer?
-- input: attempt
-- output: TEMP VIEW observed, the rows of attempt with attempt_row
CREATE OR REPLACE TEMP VIEW observed AS SELECT rowid AS attempt_row, * FROM attempt
