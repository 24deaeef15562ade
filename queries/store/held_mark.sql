-- name: store/held_mark
-- question: from which day on does the attached database have all its raw rows?
-- input: held.history_mark
-- output: one row, or none if nothing was ever dropped
SELECT raw_from FROM held.history_mark;
