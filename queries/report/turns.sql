-- name: turns
-- question: where did the time of each agent turn go, and how much of it can no hedge touch?
-- input: TEMP table turn, one row an agent turn with spans beside its model calls
-- output: one row a turn, longest first, ms; model + tool_wait + other = wall. tool_sum adds overlapping and nested tools up naively
SELECT turn_id, make_timestamp_ns(start_ns) AS start_utc, calls, tools,
       round(wall_ns / 1e6, 3) AS wall_ms, round(model_ns / 1e6, 3) AS model_ms, round(tool_wait_ns / 1e6, 3) AS tool_wait_ms,
       round(other_ns / 1e6, 3) AS other_ms, round(tool_ns / 1e6, 3) AS tool_ms, round(tool_sum_ns / 1e6, 3) AS tool_sum_ms, bounded
FROM turn
ORDER BY wall_ns DESC, turn_id
