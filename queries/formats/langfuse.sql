-- format: langfuse
-- title: Langfuse observations: API, blob storage export and trace download
-- spec: https://langfuse.com/docs, GET /api/public/observations and /api/public/v2/observations, GET /api/public/traces/ID; blob storage export
-- source: page through GET /api/public/v2/observations?fields=core,basic,time,model,usage,trace_context, or set up the blob storage export (JSONL)
-- input: json
-- detect: type|observations|trace, /"(parentObservationId|parent_observation_id)"/, !run_type, !resourceSpans
-- clock: wall clock of the SDK; naive times of the export are UTC
-- resolution: 1ms
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens,
--   cached_tokens, completion_tokens, reasoning_tokens, status, error_kind, http_status, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: set completion_start_time in the integration, else the first token is unknown. Queue and prefill are not in it: read the engines'
--   spans too, into a database of their own
-- traps: latency is seconds in one export and milliseconds in another, so start and end are used ; completionStartTime is null for whole
--   answers and may equal the end ; the same call may stand twice as nested generations, folded into one ; a trace download lists every
--   observation twice ; input does not hold the cached tokens, total is the sum ; a download may hold a total only, the sides stand in inputUsage and outputUsage ; endTime null is a call that never finished ; tools may be
--   typed SPAN ; some integrations end all spans when they flush
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH r AS (
    SELECT line, record, j, coalesce(CASE WHEN json_type(j->'$.observations') = 'ARRAY' THEN j->'$.observations' END,
                                     CASE WHEN json_type(j->'$.trace.observations') = 'ARRAY' THEN j->'$.trace.observations' END) AS list
    FROM raw
), b AS (
    SELECT line, record, unnest(CAST(list AS JSON[])) AS o FROM r WHERE list IS NOT NULL
    UNION ALL
    SELECT line, record, j FROM r WHERE list IS NULL AND coalesce(j->>'$.startTime', j->>'$.start_time') IS NOT NULL
), c AS MATERIALIZED (
    SELECT line, record, o->>'$.name' AS name, o->>'$.type' AS type,
           to_text(coalesce(o->>'$.traceId', o->>'$.trace_id')) AS trace_id, to_text(o->>'$.id') AS span_id,
           to_text(coalesce(o->>'$.parentObservationId', o->>'$.parent_observation_id')) AS parent_id,
           iso_in_ns(coalesce(o->>'$.startTime', o->>'$.start_time'), NULL) AS start_ns,
           iso_in_ns(coalesce(o->>'$.endTime', o->>'$.end_time'), NULL) AS end_ns,
           iso_in_ns(coalesce(o->>'$.completionStartTime', o->>'$.completion_start_time'), NULL) AS first_ns,
           o->>'$.level' = 'ERROR' AS bad, CASE WHEN o->>'$.level' = 'ERROR' THEN coalesce(o->>'$.statusMessage', o->>'$.status_message') END AS why,
           CASE json_type(coalesce(o->'$.usageDetails', o->'$.usage_details')) WHEN 'OBJECT' THEN coalesce(o->'$.usageDetails', o->'$.usage_details')
                WHEN 'VARCHAR' THEN valid_json(coalesce(o->>'$.usageDetails', o->>'$.usage_details')) END AS usage,
           CASE json_type(coalesce(o->'$.costDetails', o->'$.cost_details')) WHEN 'OBJECT' THEN coalesce(o->'$.costDetails', o->'$.cost_details')
                WHEN 'VARCHAR' THEN valid_json(coalesce(o->>'$.costDetails', o->>'$.cost_details')) END AS costs,
           valid_json(coalesce(o->>'$.modelParameters', o->>'$.model_parameters')) AS parameters,
           coalesce(o->>'$.model', o->>'$.providedModelName', o->>'$.provided_model_name') AS model,
           -- downloads keep the sides of the usage beside a total: both 0 is unset
           CASE WHEN to_count(o->>'$.totalUsage') > 0 OR to_count(o->>'$.inputUsage') + to_count(o->>'$.outputUsage') > 0 THEN o->>'$.inputUsage' END AS input_usage,
           CASE WHEN to_count(o->>'$.totalUsage') > 0 OR to_count(o->>'$.inputUsage') + to_count(o->>'$.outputUsage') > 0 THEN o->>'$.outputUsage' END AS output_usage,
           CASE WHEN json_type(coalesce(o->'$.toolDefinitions', o->'$.tool_definitions')) = 'OBJECT' THEN to_json(list_transform(json_keys(coalesce(o->'$.toolDefinitions', o->'$.tool_definitions')), lambda n: {'name': n})) END AS tools
    FROM b
), e AS MATERIALIZED (
    SELECT * EXCLUDE (bad), coalesce(bad, false) AS bad, span_role_word(type) AS said,
           span_map(['langfuse.observation.model.name', 'gen_ai.tool.definitions', 'error.type', 'gen_ai.usage.input_tokens', 'gen_ai.usage.output_tokens',
                     'gen_ai.usage.cache_read.input_tokens', 'gen_ai.usage.reasoning_tokens'],
                    [model, CAST(tools AS VARCHAR), why,
                     CASE WHEN coalesce(usage->>'$.input', usage->>'$.prompt_tokens', usage->>'$.input_tokens') IS NULL THEN input_usage END,
                     CASE WHEN coalesce(usage->>'$.output', usage->>'$.completion_tokens', usage->>'$.output_tokens') IS NULL THEN output_usage END,
                     usage->>'$."prompt_details.cache_read"', usage->>'$."completion_details.reasoning"']) AS m
    FROM c
), f AS MATERIALIZED (
    SELECT *, CASE WHEN said <> 'other' THEN said WHEN parent_id IS NULL AND trace_id IS NOT NULL AND end_ns IS NOT NULL AND upper(type) = 'SPAN' THEN 'root' ELSE 'other' END AS role,
           span_fault(start_ns, end_ns) AS fault, span_state(bad, why) AS state, span_failure(bad, why) AS failure, span_work(m, usage, costs, parameters) AS work
    FROM e
), w AS MATERIALIZED (
    SELECT *, span_ttft(start_ns, end_ns, first_ns, work.ttft_ns, work.completion_tokens) AS ttft FROM f
)
SELECT line, record, unnest(span_row(role, name, trace_id, span_id, parent_id, start_ns, end_ns, first_ns, ttft, fault, state, failure, work, 1000000))
FROM w
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_observation' AS reason
FROM r WHERE NOT EXISTS (FROM w WHERE w.line = r.line AND w.record = r.record)
