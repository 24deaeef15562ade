-- format: openhands
-- title: OpenHands evaluation output.jsonl, one agent run a line
-- spec: OpenHands evaluation/utils/shared.py and openhands/llm/metrics.py
-- source: the evaluation harness writes output.jsonl; history and metrics are in it
-- input: json
-- detect: instance_id, history, metrics
-- clock: wall clock of the agent, local time without a zone
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, turn_id, model, observer, arrival_ns, e2e_ns, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, status,
--   tools_offered, weight
-- hint: no first token and no replica is logged: read the gateway's log for them
-- traps: the latency of a call has no time of its own: it ends at the action that its response_id gave, and has no arrival where that action is missing ;
--   tool_call_id repeats, cause ties an observation to its action ; event ids have gaps ; costs may all be 0 ; failed calls are not listed ; a run is a
--   conversation, not a request ; times are local: --tz
WITH h AS (
    SELECT line, record, run, unnest(history) AS e FROM (SELECT line, record, to_text(j->>'$.instance_id') AS run, TRY_CAST(j->'$.history' AS JSON[]) AS history FROM raw)
), f AS MATERIALIZED (
    SELECT line, record, run, e->>'$.id' AS id, e->>'$.cause' AS cause, e->>'$.source' AS source, e->>'$.action' AS action, e->>'$.observation' AS observation,
           iso_ns(e->>'$.timestamp') AS at_ns, is_naive(e->>'$.timestamp') AS naive, to_text(e->>'$.tool_call_metadata.model_response.id') AS response_id,
           e->'$.tool_call_metadata.model_response.usage' AS usage, to_text(e->>'$.tool_call_metadata.function_name') AS tool
    FROM h
), u AS (
    SELECT line, record, unnest(TRY_CAST(j->'$.metrics.token_usages' AS JSON[])) AS t FROM raw
), used AS (
    SELECT line, record, t->>'$.response_id' AS response_id, any_value(t) AS t FROM u GROUP BY ALL
), l AS (
    SELECT line, record, to_text(j->>'$.instance_id') AS run, unnest(TRY_CAST(j->'$.metrics.response_latencies' AS JSON[])) AS r FROM raw
), first_action AS (
    SELECT line, record, response_id, min(at_ns) AS at_ns, bool_or(naive) AS naive, any_value(usage) AS usage FROM f WHERE action IS NOT NULL AND response_id IS NOT NULL GROUP BY ALL
), k AS MATERIALIZED (
    SELECT l.line, l.record, l.run, to_text(r->>'$.response_id') AS response_id, to_text(r->>'$.model') AS model, s_ns(r->>'$.latency') AS e2e, a.at_ns, a.naive, a.usage, used.t
    FROM l LEFT JOIN first_action a ON a.line = l.line AND a.record = l.record AND a.response_id = r->>'$.response_id'
           LEFT JOIN used ON used.line = l.line AND used.record = l.record AND used.response_id = r->>'$.response_id'
)
SELECT line, record, CASE WHEN e2e IS NULL OR e2e < 0 OR e2e > 86400000000000 THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS reason,
       CASE WHEN naive THEN 'naive_time' END AS note, response_id AS request_id, response_id AS attempt_id, run AS turn_id, model, 'client' AS observer,
       TRY(at_ns - e2e) AS arrival_ns, e2e AS e2e_ns, CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(coalesce(t->>'$.prompt_tokens', usage->>'$.prompt_tokens')) AS prompt_tokens, to_count(t->>'$.cache_read_tokens') AS cached_tokens,
       to_count(coalesce(t->>'$.completion_tokens', usage->>'$.completion_tokens')) AS completion_tokens, 'ok' AS status,
       -- the agent works with tools only
       CASE WHEN at_ns IS NOT NULL THEN true END AS tools_offered, CAST(1 AS DOUBLE) AS weight
FROM k
UNION ALL BY NAME
SELECT o.line, o.record, 'tool' AS kind, o.run AS turn_id, a.at_ns AS arrival_ns, o.at_ns - a.at_ns AS e2e_ns, coalesce(a.tool, a.action) AS tool_names
FROM f o JOIN f a ON a.line = o.line AND a.record = o.record AND a.id = o.cause AND a.action IS NOT NULL AND a.source = 'agent'
WHERE o.observation IS NOT NULL AND o.at_ns >= a.at_ns AND o.run IS NOT NULL
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_model_call' AS reason
FROM raw WHERE NOT EXISTS (FROM k WHERE k.line = raw.line AND k.record = raw.record)
