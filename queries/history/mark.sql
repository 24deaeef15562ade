-- name: history/mark
-- question: from which day on are all raw rows there?
-- output: one row, or none if nothing was ever dropped
SELECT raw_from FROM history_mark;
