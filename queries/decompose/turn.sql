-- name: decompose/turn
-- question: where did the time of each agent turn go: to model calls, to waiting for tools, or to neither?
-- input: observed (attempts), tool_span (model calls, tools, and the spans of agents and whole traces), selected_attempt (says which turns count),
--        folded_attempt
-- output: TEMP TABLE turn, one row a turn that logged spans beside its model calls. Times in ns: wall_ns = model_ns + tool_wait_ns +
--         other_ns. model_ns is the union of the calls; tool_wait_ns the union of the tools less the union of the calls, so that nested and
--         overlapping tools count once and a tool that runs beside a call is no wait; tool_sum_ns adds them up naively.
--         bounded = the turn's own span was logged; without it the turn reaches from its first span to its last.
CREATE OR REPLACE TEMP TABLE turn AS
WITH chosen AS (
    SELECT turn_id FROM tool_span SEMI JOIN selected_attempt USING (turn_id) GROUP BY turn_id
),
span AS (
    SELECT turn_id, 'model' AS role, arrival_ns AS low, arrival_ns + e2e_ns AS high
    FROM observed SEMI JOIN chosen USING (turn_id) WHERE arrival_ns IS NOT NULL AND e2e_ns IS NOT NULL
      AND attempt_row NOT IN (SELECT attempt_row FROM folded_attempt)
    UNION ALL
    SELECT turn_id, role, arrival_ns, arrival_ns + e2e_ns FROM tool_span SEMI JOIN chosen USING (turn_id)
),
whole AS (
    SELECT turn_id, min(low) AS low, max(high) AS high,
           -- an agent's span is the turn; what stands around it is a server's
           CASE WHEN bool_or(role = 'agent') THEN 'agent' WHEN bool_or(role = 'root') THEN 'root' END AS frame,
           count(*) FILTER (role = 'model') AS calls, count(*) FILTER (role = 'tool') AS tools,
           coalesce(sum(high - low) FILTER (role = 'tool'), 0)::BIGINT AS tool_sum_ns
    FROM span GROUP BY turn_id
),
part AS (
    SELECT turn_id, CASE WHEN role = frame THEN 'frame' ELSE role END AS role, s.low, s.high
    FROM span s JOIN whole w USING (turn_id) WHERE role IN ('model', 'tool') OR role = frame
    UNION ALL
    SELECT turn_id, 'frame', low, high FROM whole WHERE frame IS NULL
),
step AS (
    SELECT turn_id, moment, sum(frame) AS frame, sum(model) AS model, sum(tool) AS tool
    FROM (SELECT turn_id, low AS moment, (role = 'frame')::BIGINT AS frame, (role = 'model')::BIGINT AS model, (role = 'tool')::BIGINT AS tool FROM part
          UNION ALL
          SELECT turn_id, high, -(role = 'frame')::BIGINT, -(role = 'model')::BIGINT, -(role = 'tool')::BIGINT FROM part)
    GROUP BY turn_id, moment
),
piece AS (
    SELECT turn_id, moment, lead(moment) OVER told - moment AS length,
           sum(frame) OVER told > 0 AS inside, sum(model) OVER told > 0 AS model, sum(tool) OVER told > 0 AS tool
    FROM step WINDOW told AS (PARTITION BY turn_id ORDER BY moment)
),
total AS (
    SELECT turn_id, min(moment) FILTER (inside) AS start_ns, max(moment + length) FILTER (inside) AS end_ns,
           coalesce(sum(length) FILTER (inside), 0)::BIGINT AS wall_ns,
           coalesce(sum(length) FILTER (inside AND model), 0)::BIGINT AS model_ns,
           coalesce(sum(length) FILTER (inside AND tool), 0)::BIGINT AS tool_ns,
           coalesce(sum(length) FILTER (inside AND tool AND NOT model), 0)::BIGINT AS tool_wait_ns,
           coalesce(sum(length) FILTER (inside AND NOT tool AND NOT model), 0)::BIGINT AS other_ns
    FROM piece GROUP BY turn_id
)
SELECT t.turn_id, t.start_ns, t.end_ns, t.wall_ns, t.model_ns, t.tool_wait_ns, t.other_ns, t.tool_ns, w.tool_sum_ns, w.calls, w.tools,
       w.frame IS NOT NULL AS bounded
FROM total t JOIN whole w USING (turn_id)
ORDER BY t.start_ns, t.turn_id;
