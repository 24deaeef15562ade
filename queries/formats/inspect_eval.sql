-- format: inspect_eval
-- title: Inspect evaluation log, JSON
-- spec: https://inspect.aisi.org.uk/eval-logs.html
-- source: inspect eval TASK --log-format json, or inspect log convert FILE.eval --to json --output-dir DIR
-- input: json
-- detect: version, status, eval.task, eval.model
-- clock: wall clock of the evaluation
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, turn_id, route, model, observer, arrival_ns, e2e_ns, resolution_ns, prompt_tokens, cached_tokens, completion_tokens,
--   reasoning_tokens, status, error_kind, cache_hit, tools_offered, tool_names, n_choices, weight
-- hint: no first token is logged: read the engines' spans or the gateway's log for it. One row is a model call, a sample is a turn of tools and calls
-- traps: completed minus timestamp holds the framework's own waits and retries, output.time is the call ; input_tokens of some providers leave
--   the cache out, so the prompt is the total less the output ; a call without completed never finished ; calls answered from Inspect's cache are no
--   latencies ; events of a sample are one conversation, not one request
-- notes: never_finished = calls have no end in the log, so their time is unknown
WITH s AS (
    SELECT line, record, route, run, unnest(samples) AS s
    FROM (SELECT line, record, j->>'$.eval.task' AS route, coalesce(j->>'$.eval.run_id', j->>'$.eval.created') AS run, TRY_CAST(j->'$.samples' AS JSON[]) AS samples FROM raw)
), e AS (
    SELECT line, record, route, coalesce(to_text(s->>'$.uuid'), concat_ws('/', run, s->>'$.id', s->>'$.epoch')) AS turn_id, unnest(TRY_CAST(s->'$.events' AS JSON[])) AS e FROM s
), f AS MATERIALIZED (
    SELECT line, record, route, turn_id, e->>'$.event' AS event, to_text(coalesce(e->>'$.uuid', e->>'$.id')) AS id, iso_ns(e->>'$.timestamp') AS start_ns, iso_ns(e->>'$.completed') AS end_ns,
           s_ns(e->>'$.output.time') AS said_ns, e->'$.output.usage' AS usage, to_text(e->>'$.model') AS model, coalesce(e->>'$.error', e->>'$.output.error', e->>'$.error.message') AS why,
           e->>'$.error.type' AS error_type, to_bool(e->>'$.pending') AS pending, e->>'$.cache' AS cache, json_type(e->'$.tools') = 'ARRAY' AS has_tools, tool_list(e->>'$.tools') AS tools, to_text(e->>'$.function') AS tool,
           json_array_length(e->'$.output.choices') AS choices
    FROM e WHERE e->>'$.event' IN ('model', 'tool')
), k AS (
    SELECT *, coalesce(CASE WHEN event = 'model' THEN said_ns END, end_ns - start_ns) AS e2e,
           CASE WHEN why IS NULL AND coalesce(pending, false) OR why IS NULL AND end_ns IS NULL AND said_ns IS NULL THEN 'unfinished' WHEN why IS NULL THEN NULL
                WHEN span_state(true, concat_ws(' ', error_type, why)) = 'censored' THEN 'timeout' ELSE coalesce(span_failure(true, concat_ws(' ', error_type, why)), 'upstream') END AS failure
    FROM f
), d AS (
    SELECT *, span_fault(start_ns, TRY(start_ns + e2e)) AS fault FROM k
)
SELECT line, record,
       CASE WHEN fault IS NOT NULL THEN 'reject' WHEN event = 'model' THEN 'attempt' WHEN e2e IS NULL THEN 'not_request' ELSE 'tool' END AS kind,
       CASE WHEN fault IS NOT NULL THEN fault WHEN event = 'tool' AND e2e IS NULL THEN 'tool_unfinished' END AS reason,
       CASE WHEN event = 'model' AND failure = 'unfinished' THEN 'never_finished' END AS note,
       -- without an id of its own a call is told by its start
       CASE WHEN event = 'model' THEN coalesce(id, turn_id || '/' || start_ns) END AS request_id, CASE WHEN event = 'model' THEN id END AS attempt_id, turn_id, route, model, 'client' AS observer, start_ns AS arrival_ns,
       CASE WHEN event = 'tool' OR failure IS NULL OR failure IN ('timeout', 'client_gone') THEN e2e END AS e2e_ns, CAST(1000 AS BIGINT) AS resolution_ns,
       coalesce(TRY(to_count(usage->>'$.total_tokens') - to_count(usage->>'$.output_tokens')), to_count(usage->>'$.input_tokens')) AS prompt_tokens,
       to_count(usage->>'$.input_tokens_cache_read') AS cached_tokens, to_count(usage->>'$.output_tokens') AS completion_tokens, to_count(usage->>'$.reasoning_tokens') AS reasoning_tokens,
       CASE WHEN failure IS NULL THEN 'ok' WHEN failure IN ('unfinished', 'timeout', 'client_gone') THEN 'censored' ELSE 'error' END AS status, failure AS error_kind,
       CASE WHEN event = 'model' THEN coalesce(cache = 'read', false) END AS cache_hit,
       CASE WHEN event = 'model' AND has_tools THEN tools <> '' END AS tools_offered, CASE WHEN event = 'tool' THEN tool ELSE nullif(tools, '') END AS tool_names,
       TRY_CAST(CASE WHEN choices > 0 THEN choices END AS INTEGER) AS n_choices, CAST(1 AS DOUBLE) AS weight
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_model_call' AS reason
FROM raw WHERE NOT EXISTS (FROM d WHERE d.line = raw.line AND d.record = raw.record)
