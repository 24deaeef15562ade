-- name: history/prune
-- question: drop the raw rows of days that the history already holds
-- input: attempt, tool_span; getvariable('before_ns'): arrivals before it go; getvariable('raw_from'): the first day that keeps its rows
-- output: tables attempt, tool_span, history_mark
DELETE FROM attempt WHERE arrival_ns < getvariable('before_ns');
DELETE FROM tool_span WHERE arrival_ns < getvariable('before_ns');
DELETE FROM history_mark;
INSERT INTO history_mark VALUES (getvariable('raw_from'));
