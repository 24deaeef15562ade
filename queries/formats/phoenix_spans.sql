-- format: phoenix_spans
-- title: OpenInference spans as JSON objects: Phoenix REST and DataFrame
-- spec: OpenInference semantic conventions; Phoenix REST GET /v1/projects/NAME/spans; arize-phoenix-client get_spans_dataframe
-- source: GET /v1/projects/NAME/spans page by page into a file, or get_spans_dataframe(...).to_json(orient="records", lines=True)
-- input: json
-- detect: start_time, end_time, status_code, context.trace_id|"context.trace_id", span_kind|"attributes.openinference.span.kind"|"attributes"
-- clock: wall clock of the process that made the call; the server keeps microseconds, the DataFrame's to_json milliseconds
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, status, error_kind, streamed, tools_offered, tool_names, cost, currency, weight
-- hint: the server takes spans in asynchronously: wait before you export, else turns are cut. Queue and prefill are not in it: read the
--   engines' spans too, into a database of their own
-- traps: the REST form moves openinference.span.kind to the top ; the first token is an event, on streams only ; the span is narrower than
--   the call of the SDK ; token counts of streams may be too low ; the DataFrame has a column for every attribute, most of them null, and
--   times in milliseconds while events have microseconds ; CSV from reset_index fails, use JSON ; an export soon after the run is incomplete
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH a AS (
    SELECT line, record, j, j->'$.attributes' AS attributes, j->'$.context' AS context FROM raw
), c AS MATERIALIZED (
    SELECT line, record, j->>'$.name' AS name,
           otlp_id(coalesce(context->>'$.trace_id', j->>'$."context.trace_id"')) AS trace_id,
           otlp_id(coalesce(context->>'$.span_id', j->>'$."context.span_id"')) AS span_id,
           otlp_id(j->>'$.parent_id') AS parent_id,
           time_ns(j->>'$.start_time') AS start_ns, time_ns(j->>'$.end_time') AS end_ns,
           j->>'$.start_time' AS start_text,
           upper(j->>'$.status_code') IN ('2', 'ERROR', 'STATUS_CODE_ERROR') AS failed, j->>'$.status_message' AS message,
           j->>'$.span_kind' AS span_kind,
           CASE WHEN json_type(attributes) = 'OBJECT' THEN otlp_attrs(attributes)
                ELSE list_transform(list_filter(otlp_attrs(CASE WHEN json_type(j) = 'OBJECT' THEN j END), lambda x: starts_with(x.key, 'attributes.')),
                                    lambda x: {'key': substr(x.key, 12), 'text': x.text}) END AS attrs,
           j->>'$."attributes.llm.tools"' AS tools,
           CASE WHEN json_type(j->'$.events') = 'ARRAY' THEN
               list_min(list_transform(list_filter(from_json(j->'$.events', '[{"name":"VARCHAR","timestamp":"VARCHAR"}]'), lambda e: e.name = 'First Token Stream Event'),
                                       lambda e: time_ns(e.timestamp))) END AS first_ns
    FROM a
), d AS MATERIALIZED (
    SELECT * EXCLUDE (attrs), span_map(list_append(list_transform(attrs, lambda x: x.key), 'span_kind'),
                                       list_append(list_transform(attrs, lambda x: x.text), span_kind)) AS m FROM c
), e AS MATERIALIZED (
    SELECT *, coalesce(nullif(span_role(m), 'other'), span_role_word(CASE WHEN m['openinference.span.kind'] IS NULL THEN m['span_kind'] END), 'other') AS said,
           coalesce(failed, false) AS bad, concat_ws(' ', m['error.type'], CASE WHEN failed THEN message END) AS why,
           valid_json(m['llm.invocation_parameters']) AS parameters, CAST(NULL AS JSON) AS usage, CAST(NULL AS JSON) AS costs,
           CASE WHEN regexp_matches(start_text, '\.\d{3}Z?$') THEN 1000000 ELSE 1000 END AS basis_ns
    FROM d
)
SELECT * FROM rows_of_spans('e')
