-- format: dynamo_trace
-- title: Dynamo request trace, with tool events
-- spec: ai-dynamo/dynamo lib/llm/src/request_trace
-- source: DYN_REQUEST_TRACE=1 on the frontend, DYN_REQUEST_TRACE_SINKS=file, DYN_REQUEST_TRACE_FILE_PATH; callers send X-Dynamo-Session-ID
-- input: json
-- detect: schema|event, /"dynamo\.(request|agent)\.trace\.v\d/
-- clock: wall clock of the frontend, epoch milliseconds; durations are monotonic
-- resolution: 1us
-- observer: gateway
-- observes: request_id, attempt_id, turn_id, replica, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns,
--   prefill_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, status, error_kind, tools_offered, tool_names
-- hint: without a session header a row has neither model, worker nor timings: send X-Dynamo-Session-ID. Tool events need a harness that
--   feeds them
-- traps: prefill_wait_time_ms is the router's wait until it dispatches, the engine's own queue is inside prefill_time_ms ; worker ids exceed 2^63 ; compact rows have
--   tokens and times of arrival and end only ; file sinks wrap the record and add a time since the writer's start ; one tool call has a start and an
--   end event ; a session is a conversation, not a request ; the sink is lossy under load
WITH f AS (
    SELECT line, record, CASE WHEN json_type(j->'$.event') = 'OBJECT' THEN j->'$.event' ELSE j END AS e FROM raw
), v AS (
    SELECT line, record, e->>'$.event_type' AS event, ms_ns(e->>'$.event_time_unix_ms') AS event_ns, to_text(e->>'$.agent_context.session_id') AS session,
           e->'$.request' AS r, e->'$.tool' AS t, ms_ns(e->>'$.tool.started_at_unix_ms') AS tool_start,
           coalesce(ms_ns(e->>'$.tool.duration_ms'), TRY(ms_ns(e->>'$.tool.ended_at_unix_ms') - ms_ns(e->>'$.tool.started_at_unix_ms'))) AS tool_ns
    FROM f
), d AS (
    SELECT *, ms_ns(r->>'$.request_received_ms') AS received, ms_ns(r->>'$.total_time_ms') AS total, ms_ns(r->>'$.ttft_ms') AS ttft,
           ms_ns(r->>'$.prefill_wait_time_ms') AS queue, ms_ns(r->>'$.prefill_time_ms') AS prefill,
           r->>'$.finish_reason_metadata.finish_reason' AS finish, json_type(r->'$.finish_reason_metadata.tool_calls') = 'ARRAY' AS tools,
           tool_list(r->>'$.finish_reason_metadata.tool_calls') AS tool_names
    FROM v
), u AS (
    SELECT *, coalesce(total, TRY(event_ns - received)) AS e2e FROM d
), k AS (
    SELECT *, TRY(e2e - ttft) AS decode,
           CASE WHEN event IN ('tool_end', 'tool_error') AND session IS NOT NULL AND tool_start > 0 AND tool_ns BETWEEN 0 AND 86400000000000 THEN 'tool'
                WHEN event IS DISTINCT FROM 'request_end' OR json_type(r) IS DISTINCT FROM 'OBJECT' THEN 'not_request'
                WHEN received IS NULL OR received <= 0 OR e2e IS NULL OR e2e < 0 OR e2e > 86400000000000 THEN 'reject' ELSE 'attempt' END AS kind,
           coalesce(finish = 'error', false) AS failed, coalesce(finish IN ('cancelled', 'canceled', 'abort', 'aborted', 'disconnected', 'timeout'), false) AS gone
    FROM u
)
SELECT line, record, kind,
       CASE kind WHEN 'not_request' THEN coalesce(event, 'no_request_field')
            WHEN 'reject' THEN CASE WHEN received IS NULL OR received <= 0 THEN 'bad_time' WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' ELSE 'duration_out_of_range' END END AS reason,
       CASE WHEN kind = 'attempt' THEN nullif(concat_ws(',', ttft_fault(ttft, e2e), coalesce(part_fault(queue, e2e), part_fault(prefill, e2e))), '') END AS note,
       coalesce(to_text(r->>'$.x_request_id'), to_text(r->>'$.request_id')) AS request_id, to_text(r->>'$.request_id') AS attempt_id, session AS turn_id,
       to_text(r->>'$.worker.decode_worker_id') || coalesce('/dp' || to_count(r->>'$.worker.decode_dp_rank'), '') AS replica,
       to_text(r->>'$.model') AS model, 'gateway' AS observer,
       CASE WHEN kind = 'tool' THEN tool_start ELSE received END AS arrival_ns, CASE WHEN kind = 'tool' THEN tool_ns ELSE e2e END AS e2e_ns,
       CASE WHEN ttft > 0 AND ttft <= e2e THEN ttft END AS ttft_ns, CASE WHEN ttft > 0 AND ttft <= e2e THEN 'first_token' END AS ttft_basis,
       CASE WHEN queue BETWEEN 0 AND e2e THEN queue END AS queue_ns, CASE WHEN queue BETWEEN 0 AND e2e THEN 'measured' END AS queue_basis,
       CASE WHEN prefill BETWEEN 0 AND e2e THEN prefill END AS prefill_ns, CASE WHEN prefill BETWEEN 0 AND e2e THEN 'measured' END AS prefill_basis,
       CASE WHEN ttft > 0 AND decode BETWEEN 0 AND e2e THEN decode END AS decode_ns, CASE WHEN ttft > 0 AND decode BETWEEN 0 AND e2e THEN 'derived' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       coalesce(to_count(r->>'$.input_tokens'), to_count(r->>'$.replay.input_length')) AS prompt_tokens, to_count(r->>'$.cached_tokens') AS cached_tokens,
       to_count(r->>'$.output_tokens') AS completion_tokens,
       CASE WHEN gone THEN 'censored' WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN finish = 'timeout' THEN 'timeout' WHEN gone THEN 'client_gone' WHEN failed THEN 'upstream' END AS error_kind,
       CASE WHEN tools AND tool_names <> '' THEN true END AS tools_offered,
       CASE WHEN kind = 'tool' THEN coalesce(to_text(t->>'$.tool_class'), to_text(t->>'$.tool_name_hash')) ELSE nullif(tool_names, '') END AS tool_names
FROM k
