-- format: mlflow_trace
-- title: MLflow traces: search_traces as JSON or CSV
-- spec: mlflow.entities Trace.to_json and search_traces of MLflow 3
-- source: write trace.to_json() of every mlflow.search_traces(return_type="list") to a line, or search_traces().to_csv(FILE, index=False)
-- input: json
-- detect: info.trace_id|"spans"|trace, /mlflow\.spanType/, /start_time_unix_nano/
-- clock: wall clock of the process that made the call
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, status, error_kind, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: turn on mlflow.openai.autolog() (or the one of your SDK): model calls are then spans of type CHAT_MODEL. Queue and prefill are not
--   in it: read the engines' spans too, with --join
-- traps: ids of spans are base64, that of the trace is tr- and hex ; attribute values are JSON dumped into text ; the first token is the
--   first event mlflow.chunk.item.N of a stream that says something (item 0 is the role chunk), and nothing else has it ; retries of the SDK are inside one span ; a tool in the
--   background keeps the turn open ; a row of the CSV holds the whole trace twice, in trace and in spans
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH a AS (
    -- the DataFrame's column trace is the JSON form in text
    SELECT line, record, coalesce(CASE WHEN json_type(j->'$.data') = 'OBJECT' THEN j->'$.data' END, valid_json(json_part(j->>'$.trace', '$.data'))) AS data FROM raw
), b AS (
    SELECT line, record, unnest(TRY_CAST(data->'$.spans' AS JSON[])) AS span FROM a WHERE data IS NOT NULL
), c AS MATERIALIZED (
    SELECT line, record, span->>'$.name' AS name,
           list_transform(otlp_attrs(span->'$.attributes'), lambda x: {'key': x.key, 'text': CASE WHEN x.text[1] = '"' AND json_valid(x.text) THEN json_extract_string(x.text, '$') ELSE x.text END}) AS attrs,
           coalesce(otlp_id(span->>'$.trace_id'), otlp_id(span->>'$.context.trace_id')) AS trace_id,
           coalesce(otlp_id(span->>'$.span_id'), otlp_id(span->>'$.context.span_id')) AS span_id,
           otlp_id(coalesce(span->>'$.parent_span_id', span->>'$.parent_id')) AS parent_id,
           ns_ns(coalesce(span->>'$.start_time_unix_nano', span->>'$.start_time')) AS start_ns,
           nullif(ns_ns(coalesce(span->>'$.end_time_unix_nano', span->>'$.end_time')), 0) AS end_ns,
           coalesce(span->>'$.status.code', span->>'$.status_code') IN ('2', 'ERROR', 'STATUS_CODE_ERROR') AS failed,
           coalesce(span->>'$.status.message', span->>'$.status_message') AS message,
           -- chunks whose text is not kept are taken to speak
           CASE WHEN json_type(span->'$.events') = 'ARRAY' THEN
               list_min(list_transform(list_filter(from_json(span->'$.events', '[{"name":"VARCHAR","time_unix_nano":"VARCHAR","timestamp":"VARCHAR","attributes":{"mlflow.chunk.value":"VARCHAR"}}]'),
                                                   lambda e: starts_with(e.name, 'mlflow.chunk.item.') AND chunk_speaks(coalesce(e.attributes."mlflow.chunk.value", ''))),
                                       lambda e: coalesce(ns_ns(e.time_unix_nano), us_ns(e.timestamp)))) END AS first_ns
    FROM b
)
FROM span_rows('c')
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_span' AS reason
FROM a WHERE NOT EXISTS (FROM c WHERE c.line = a.line AND c.record = a.record)
