-- name: decompose/turn_facts
-- question: how much of the agent turns' time is the models', and how much is waiting for tools?
-- input: turn
-- output: one row: turns, wall_ns, model_ns, tool_wait_ns, other_ns (sums over turns), unbounded (turns whose own span is missing)
SELECT count(*) AS turns, coalesce(sum(wall_ns), 0)::HUGEINT AS wall_ns, coalesce(sum(model_ns), 0)::HUGEINT AS model_ns,
       coalesce(sum(tool_wait_ns), 0)::HUGEINT AS tool_wait_ns, coalesce(sum(other_ns), 0)::HUGEINT AS other_ns,
       count(*) FILTER (NOT bounded) AS unbounded
FROM turn;
