-- format: otlp_genai
-- title: model calls as OpenTelemetry spans, OTLP JSON
-- spec: OpenTelemetry protocol, JSON encoding; semantic conventions for generative AI; OpenLLMetry; OpenInference; Langfuse SDK
-- source: a collector with the file exporter (format json), or an SDK that writes OTLP JSON; Tempo /api/traces/ID and /api/v2/traces/ID;
--   Phoenix GET /v1/projects/NAME/spans/otlpv1
-- input: json
-- detect: resourceSpans|resource_spans|batches|trace|startTimeUnixNano|start_time_unix_nano,
--   /[uU]nix_?[nN]ano"/,
--   /gen_ai\.(operation\.name|system|provider\.name)|openinference\.span\.kind|langfuse\.observation\.type|traceloop\.span\.kind|llm\.request\.type|ai\.operationId/,
--   !/gen_ai\.latency\./, !/litellm\.call_id|raw_gen_ai_request|"name": ?"litellm(_request)?"/, !/mlflow\.spanType/, !/"parentObservationId"/
-- clock: wall clock of the process that made the call
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, replica, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, error_kind, http_status, streamed, tools_offered, tool_names,
--   n_choices, cost, currency, weight
-- hint: the client sees neither queue nor prefill: read the engines' spans too, with --join. Set server.address per engine or put the
--   replica's name into the model call's span, else replicas cannot be told apart. Retries of the SDK hide inside one span: set
--   max_retries=0 and retry outside
-- traps: the first token is an event (First Token Stream Event, gen_ai.content.completion.chunk) or gen_ai.response.time_to_first_chunk, and
--   with opentelemetry-instrumentation-openai-v2 it is nowhere ; retries of the SDK are inside one span ; a trace is spread over lines and
--   files, children before parents ; a framework and an SDK that both trace give two nested spans for one call, folded into one ; the
--   trace id may be a whole session: the request is the model call ; ids are hex, base64 or upper case, times text or numbers, enums
--   numbers or names, unset values null ; langfuse completion_start_time is JSON inside text ; a stream's role chunk comes before its
--   first content ; a failed tool is still tool wait
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH r AS (
    SELECT line, record, j, coalesce(j->'$.resourceSpans', j->'$.resource_spans', j->'$.batches', j->'$.trace.resourceSpans', j->'$.trace.resource_spans') AS resource_spans
    FROM raw
), a AS (
    SELECT line, record, coalesce(resource_span->'$.scopeSpans', resource_span->'$.scope_spans', resource_span->'$.instrumentationLibrarySpans') AS scopes
    FROM (SELECT line, record, unnest(TRY_CAST(resource_spans AS JSON[])) AS resource_span FROM r WHERE resource_spans IS NOT NULL)
), b AS (
    SELECT line, record, unnest(TRY_CAST(scope->'$.spans' AS JSON[])) AS span
    FROM (SELECT line, record, unnest(TRY_CAST(scopes AS JSON[])) AS scope FROM a)
    UNION ALL
    SELECT line, record, j FROM r WHERE resource_spans IS NULL
), c AS MATERIALIZED (
    SELECT line, record, otlp_attrs(span->'$.attributes') AS attrs,
           otlp_id(coalesce(span->>'$.traceId', span->>'$.trace_id')) AS trace_id,
           otlp_id(coalesce(span->>'$.spanId', span->>'$.span_id')) AS span_id,
           otlp_id(coalesce(span->>'$.parentSpanId', span->>'$.parent_span_id')) AS parent_id,
           ns_ns(coalesce(span->>'$.startTimeUnixNano', span->>'$.start_time_unix_nano')) AS start_ns,
           nullif(ns_ns(coalesce(span->>'$.endTimeUnixNano', span->>'$.end_time_unix_nano')), 0) AS end_ns,
           span->>'$.name' AS name,
           upper(span->>'$.status.code') IN ('2', 'STATUS_CODE_ERROR', 'ERROR') AS failed,
           span->>'$.status.message' AS message,
           CASE WHEN json_type(span->'$.events') = 'ARRAY' THEN
               list_min(list_transform(list_filter(from_json(span->'$.events', '[{"name":"VARCHAR","timeUnixNano":"VARCHAR","time_unix_nano":"VARCHAR"}]'),
                   lambda e: e.name IN ('First Token Stream Event', 'gen_ai.content.completion.chunk', 'llm.content.completion.chunk', 'mlflow.chunk.item.0', 'ai.stream.firstChunk')),
                   lambda e: ns_ns(coalesce(e.timeUnixNano, e.time_unix_nano)))) END AS event_ns
    FROM b
), d AS MATERIALIZED (
    SELECT * EXCLUDE (attrs), span_map(list_transform(attrs, lambda x: x.key), list_transform(attrs, lambda x: x.text)) AS m FROM c
), e AS MATERIALIZED (
    SELECT *, span_role(m) AS said, coalesce(failed, false) AS bad, concat_ws(' ', m['error.type'], CASE WHEN failed THEN message END) AS why,
           coalesce(event_ns, time_ns(trim(m['langfuse.observation.completion_start_time'], '"'))) AS first_ns,
           valid_json(m['langfuse.observation.usage_details']) AS usage, valid_json(m['langfuse.observation.cost_details']) AS costs,
           valid_json(coalesce(m['llm.invocation_parameters'], m['langfuse.observation.model.parameters'])) AS parameters
    FROM d
), f AS MATERIALIZED (
    SELECT * EXCLUDE (said), CASE WHEN said <> 'other' THEN said ELSE 'root' END AS role, span_fault(start_ns, end_ns) AS fault,
           span_state(bad, why) AS state, span_failure(bad, why) AS failure, span_work(m, usage, costs, parameters) AS work
    FROM e WHERE said <> 'other' OR parent_id IS NULL AND trace_id IS NOT NULL AND end_ns IS NOT NULL
), w AS MATERIALIZED (
    SELECT *, span_ttft(start_ns, end_ns, first_ns, work.ttft_ns, work.completion_tokens) AS ttft FROM f
)
SELECT line, record, unnest(span_row(role, name, trace_id, span_id, parent_id, start_ns, end_ns, first_ns, ttft, fault, state, failure, work, 1000))
FROM w
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'other_span' AS reason
FROM r WHERE NOT EXISTS (FROM w WHERE w.line = r.line AND w.record = r.record)
