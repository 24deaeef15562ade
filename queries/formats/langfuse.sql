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
    -- one pass a record, whatever spelling it has: an observation, or a page or a trace with a list of them
    SELECT line, record, from_json(j, langfuse_fields()) AS v FROM raw
), l AS (
    SELECT line, record, v, coalesce(CASE WHEN v.observations[1] = '[' AND json_valid(v.observations) THEN v.observations END,
                                     CASE WHEN v.trace.observations[1] = '[' AND json_valid(v.trace.observations) THEN v.trace.observations END) AS list
    FROM r
), o AS (
    SELECT line, record, CASE WHEN list IS NULL THEN coalesce(v.startTime, v.start_time) IS NOT NULL ELSE list <> '[]' END AS observed,
           unnest(CASE WHEN list <> '[]' THEN from_json(list, '[' || langfuse_fields() || ']') ELSE [v] END) AS v
    FROM l
), c AS (
    SELECT line, record, observed, v.name AS name, v.type AS type,
           to_text(coalesce(v.traceId, v.trace_id)) AS trace_id, to_text(v.id) AS span_id,
           to_text(coalesce(v.parentObservationId, v.parent_observation_id)) AS parent_id,
           iso_in_ns(coalesce(v.startTime, v.start_time), NULL) AS start_ns,
           iso_in_ns(coalesce(v.endTime, v.end_time), NULL) AS end_ns,
           iso_in_ns(coalesce(v.completionStartTime, v.completion_start_time), NULL) AS first_ns,
           coalesce(v.level = 'ERROR', false) AS bad, CASE WHEN v.level = 'ERROR' THEN coalesce(v.statusMessage, v.status_message) END AS why,
           -- an object, or text that holds one
           TRY(from_json(CASE WHEN starts_with(coalesce(v.usageDetails, v.usage_details), '{') THEN coalesce(v.usageDetails, v.usage_details) END,
               '{"prompt_tokens": "BIGINT", "input_tokens": "BIGINT", "input": "BIGINT", "input_cached_tokens": "BIGINT", "input_cache_read": "BIGINT",
                 "input_cache_creation": "BIGINT", "cache_read_input_tokens": "BIGINT", "cache_creation_input_tokens": "BIGINT", "prompt_tokens_details": {"cached_tokens": "BIGINT"},
                 "completion_tokens": "BIGINT", "output_tokens": "BIGINT", "output": "BIGINT", "output_reasoning_tokens": "BIGINT",
                 "completion_tokens_details": {"reasoning_tokens": "BIGINT"}, "prompt_details.cache_read": "BIGINT", "completion_details.reasoning": "BIGINT"}')) AS usage,
           -- downloads keep the sides of the usage beside a total: both 0 is unset
           CASE WHEN to_count(v.totalUsage) > 0 OR to_count(v.inputUsage) + to_count(v.outputUsage) > 0 THEN v.inputUsage END AS input_usage,
           CASE WHEN to_count(v.totalUsage) > 0 OR to_count(v.inputUsage) + to_count(v.outputUsage) > 0 THEN v.outputUsage END AS output_usage,
           TRY(from_json(CASE WHEN starts_with(coalesce(v.costDetails, v.cost_details), '{') THEN coalesce(v.costDetails, v.cost_details) END,
               '{"total": "VARCHAR", "total_cost": "VARCHAR"}')) AS costs,
           TRY(from_json(CASE WHEN starts_with(coalesce(v.modelParameters, v.model_parameters), '{') THEN coalesce(v.modelParameters, v.model_parameters) END,
               '{"stream": "VARCHAR"}')) AS parameters,
           coalesce(v.model, v.providedModelName, v.provided_model_name) AS model,
           TRY(json_keys(CASE WHEN starts_with(coalesce(v.toolDefinitions, v.tool_definitions), '{') THEN coalesce(v.toolDefinitions, v.tool_definitions) END)) AS tools
    FROM o
), e AS (
    SELECT *, span_role_word(type) AS said, {
        'request_id': CAST(NULL AS VARCHAR), 'model': present(model), 'provider': CAST(NULL AS VARCHAR), 'replica': CAST(NULL AS VARCHAR),
        -- cached input is counted apart, also under Anthropic's names: the prompt is the sum
        'prompt_tokens': to_count(coalesce(CASE WHEN coalesce(usage.input, usage.prompt_tokens, usage.input_tokens) IS NULL THEN input_usage END, usage.prompt_tokens, usage.input_tokens,
            usage.input + coalesce(usage.input_cached_tokens, usage.input_cache_read, usage.cache_read_input_tokens, 0)
            + coalesce(usage.input_cache_creation, usage.cache_creation_input_tokens, 0))),
        'cached_tokens': to_count(coalesce(usage."prompt_details.cache_read", usage.prompt_tokens_details.cached_tokens, usage.input_cached_tokens, usage.input_cache_read, usage.cache_read_input_tokens)),
        'completion_tokens': to_count(coalesce(CASE WHEN coalesce(usage.output, usage.completion_tokens, usage.output_tokens) IS NULL THEN output_usage END,
            usage.completion_tokens, usage.output_tokens, usage.output + coalesce(usage.output_reasoning_tokens, 0))),
        'reasoning_tokens': to_count(coalesce(usage."completion_details.reasoning", usage.completion_tokens_details.reasoning_tokens, usage.output_reasoning_tokens)),
        'streamed': to_bool(parameters.stream), 'tool_names': array_to_string(list_sort(list_distinct(tools)), ','), 'sees_request': tools IS NOT NULL,
        'n_choices': CAST(NULL AS INTEGER), 'http_status': TRY_CAST(nullif(regexp_extract(why, '\b([45]\d\d)\b', 1), '') AS INTEGER),
        'cost': to_money(coalesce(costs.total, costs.total_cost)), 'tool': CAST(NULL AS VARCHAR)} AS work
    FROM c
), f AS (
    SELECT *, CASE WHEN said <> 'other' THEN said WHEN parent_id IS NULL AND trace_id IS NOT NULL AND end_ns IS NOT NULL AND upper(type) = 'SPAN' THEN 'root' ELSE 'other' END AS role,
           span_fault(start_ns, end_ns) AS fault, span_state(bad, why) AS state, span_failure(bad, why) AS failure,
           span_ttft(start_ns, end_ns, first_ns, CAST(NULL AS BIGINT), work.completion_tokens) AS ttft
    FROM e
), s AS (
    SELECT line, record, observed,
           span_row(role, name, trace_id, span_id, parent_id, start_ns, end_ns, first_ns, ttft, fault, state, failure, work, 1000000) AS r
    FROM f
), u AS (
    -- a step of its own: unnest would be planned with all of span_row once a column
    SELECT line, record, observed, unnest(r) FROM s
)
SELECT * EXCLUDE (observed)
    REPLACE (CASE WHEN observed THEN kind ELSE 'not_request' END AS kind, CASE WHEN observed THEN reason ELSE 'no_observation' END AS reason)
FROM u
