-- format: tau2
-- title: tau2-bench simulations, JSON
-- spec: sierra-research/tau2-bench src/tau2/data_model/message.py and simulation.py
-- source: tau2 run ... --save-to NAME; the file data/simulations/NAME.json
-- input: json
-- detect: info, simulations, info.agent_info|info.user_info
-- clock: wall clock of the runner, local time without a zone
-- resolution: 1us
-- observer: client
-- observes: request_id, turn_id, model, route, observer, arrival_ns, e2e_ns, resolution_ns, prompt_tokens, completion_tokens, status, tools_offered, tool_names, cost,
--   currency, weight
-- hint: no first token and no replica is logged: read the gateway's log for them
-- traps: where generation_time_seconds is missing the time of an answer is the gap before it, work of the runner included ; a generation time of 0 is
--   none ; the first greeting is no call ; calls of the simulated user are not counted and are in no gap ; tools run in memory, in less than their
--   clock can tell ; a simulation is a conversation, not a request ; times are local: --tz
WITH s AS (
    SELECT line, record, model, route, unnest(list) AS s
    FROM (SELECT line, record, j->>'$.info.agent_info.llm' AS model, j->>'$.info.environment_info.domain_name' AS route, TRY_CAST(j->'$.simulations' AS JSON[]) AS list FROM raw)
), m AS (
    SELECT line, record, model, route, to_text(s->>'$.id') AS turn_id, TRY_CAST(s->'$.messages' AS JSON[]) AS list FROM s
), p AS (
    SELECT line, record, model, route, turn_id, unnest(list) AS m, generate_subscripts(list, 1) AS place, unnest(list_concat([NULL::JSON], list[:-2])) AS before FROM m
), f AS MATERIALIZED (
    SELECT line, record, place, route, turn_id, coalesce(to_text(m->>'$.model'), model) AS model, m->>'$.role' AS role, coalesce(m->>'$.requestor', 'assistant') AS requestor, iso_ns(m->>'$.timestamp') AS end_ns,
           is_naive(m->>'$.timestamp') AS naive, iso_ns(before->>'$.timestamp') AS before_ns, m->'$.tool_calls' AS calls,
           nullif(s_ns(m->>'$.generation_time_seconds'), 0) AS said_ns, m->'$.usage' AS usage, m->>'$.cost' AS cost, tool_list(m->>'$.tool_calls') AS tools, to_text(m->>'$.name') AS tool, m->>'$.tool_call_id' AS call_id
    FROM p
), called AS (
    SELECT line, record, turn_id, c.id AS call_id, any_value(c.name) AS name
    FROM (SELECT line, record, turn_id, unnest(from_json(calls, '[{"id":"VARCHAR","name":"VARCHAR"}]')) AS c FROM f WHERE json_type(calls) = 'ARRAY') GROUP BY ALL
), k AS MATERIALIZED (
    SELECT f.*, name, coalesce(CASE WHEN role = 'assistant' THEN said_ns END, end_ns - before_ns) AS e2e FROM f LEFT JOIN called USING (line, record, turn_id, call_id)
    WHERE role = 'assistant' AND json_type(usage) = 'OBJECT' OR role = 'tool' AND requestor = 'assistant' AND before_ns IS NOT NULL AND turn_id IS NOT NULL
)
SELECT line, record, CASE WHEN role = 'tool' AND e2e BETWEEN 0 AND 86400000000000 THEN 'tool' WHEN e2e BETWEEN 0 AND 86400000000000 THEN 'attempt' ELSE 'reject' END AS kind,
       CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS reason,
       CASE WHEN naive AND role = 'assistant' THEN 'naive_time' END AS note,
       CASE WHEN role = 'assistant' THEN turn_id || '/' || (place - 1) END AS request_id, turn_id, model, route, 'client' AS observer, TRY(end_ns - e2e) AS arrival_ns, e2e AS e2e_ns, CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(usage->>'$.prompt_tokens') AS prompt_tokens, to_count(usage->>'$.completion_tokens') AS completion_tokens, 'ok' AS status,
       -- the agent may call tools at any turn
       CASE WHEN role = 'assistant' THEN true END AS tools_offered,
       CASE WHEN role = 'assistant' THEN nullif(tools, '')
            ELSE coalesce(tool, name, 'tool') END AS tool_names,
       to_money(cost) AS cost, CASE WHEN cost IS NOT NULL THEN 'USD' END AS currency, CAST(1 AS DOUBLE) AS weight
FROM k
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_model_call' AS reason
FROM raw WHERE NOT EXISTS (FROM k WHERE k.line = raw.line AND k.record = raw.record)
