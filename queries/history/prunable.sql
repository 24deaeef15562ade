-- name: history/prunable
-- question: how many raw rows would be dropped?
-- input: attempt, tool_span; $before_ns: arrivals before it go
-- output: one row: attempts, tool calls
SELECT (SELECT count(*) FROM attempt WHERE arrival_ns < $before_ns) AS attempts,
       (SELECT count(*) FROM tool_span WHERE arrival_ns < $before_ns) AS tool_calls;
