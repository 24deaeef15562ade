-- format: litellm_payload
-- title: LiteLLM proxy, StandardLoggingPayload
-- spec: https://docs.litellm.ai/docs/proxy/logging_spec
-- source: litellm_settings callbacks: generic_api (log_format ndjson or json_array), s3_v2, gcs_bucket or a custom callback that
--   writes kwargs["standard_logging_object"]
-- input: json
-- detect: startTime, endTime, call_type|model_group|model_id|api_base|litellm_call_id|completionStartTime, !traceId, !spend, !request_duration_ms
-- clock: wall clock of the proxy, epoch seconds; older exports have naive UTC text
-- resolution: 1us
-- observer: gateway
-- observes: request_id, attempt_id, attempt_no, cause, turn_id, replica, model, route, provider, segment, observer, arrival_ns, e2e_ns,
--   ttft_ns, ttft_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status,
--   error_kind, cache_hit, streamed, tools_offered, tool_names, stored_state, batch, n_choices, cost, currency, weight
-- hint: queue time is not in the payload; add the engines' own spans or metrics to split queue from prefill. model_id is the
--   deployment: give every engine its own model_info.id, else a pool looks like one replica
-- traps: completionStartTime equal to endTime is the writer's fallback, so TTFT is unknown ; a streamed success row after a retry
--   starts at the request, a whole answer at the winning attempt ; only the first failed attempt has a row ; cache hits name a
--   replica that was not called ; status success with error_code 499 is a client that left ; a whole answer whose client left is
--   unmarked ; a role chunk sent before prefill makes the first token up to 0.2 s too early ; old proxies start /v1/messages rows at the
--   response headers ; naive times are UTC whatever the zone of the proxy ; trace_id may be a whole session, so the request is litellm_call_id ; queue time is missing
-- notes: ttft_after_hangup = callers left before the first token, so TTFT is unknown ; ttft_near_e2e = first token in the last twentieth of the
--   answer (does something hold answers back?) ; zero_length_failure = failed rows of no length, so their time is unknown
WITH x AS (
    -- one pass a record: from_json walks its keys once, a list of paths would look each one up
    SELECT line, record, j, from_json(j, '{
        "id": "VARCHAR", "litellm_call_id": "VARCHAR", "trace_id": "VARCHAR", "request_id": "VARCHAR", "call_type": "VARCHAR",
        "stream": "VARCHAR", "status": "VARCHAR", "startTime": "VARCHAR", "completionStartTime": "VARCHAR", "endTime": "VARCHAR",
        "model": "VARCHAR", "model_group": "VARCHAR", "model_id": "VARCHAR", "api_base": "VARCHAR", "custom_llm_provider": "VARCHAR",
        "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR", "cache_hit": "VARCHAR", "response_cost": "VARCHAR",
        "request_tags": "VARCHAR",
        "error_information": {"error_code": "VARCHAR", "error_class": "VARCHAR"},
        "metadata": {
            "user_api_key_request_route": "VARCHAR", "user_api_key_team_alias": "VARCHAR",
            "user_api_key_auth_metadata": {"tier": "VARCHAR"}, "kubernetes_pod_routing": {"pod_ip": "VARCHAR"},
            "internal_call_origin": "VARCHAR", "is_silent_experiment": "VARCHAR", "mcp_tool_call_metadata": {"name": "VARCHAR"},
            "usage_object": {
                "cache_read_input_tokens": "VARCHAR", "prompt_tokens_details": {"cached_tokens": "VARCHAR"},
                "completion_tokens_details": {"reasoning_tokens": "VARCHAR"}}},
        "hidden_params": {"additional_headers": {"x-litellm-attempted-retries": "VARCHAR", "x-litellm-attempted-fallbacks": "VARCHAR"}},
        "model_parameters": {
            "tools": "VARCHAR", "n": "VARCHAR", "stream": "VARCHAR", "previous_response_id": "VARCHAR", "conversation": "VARCHAR"}
    }') AS v
    FROM raw
), t AS (
    SELECT line, record, v,
           v.startTime AS start_s, v.endTime AS end_s,
           -- numbers are epoch seconds; text is ISO and, without a zone, UTC whatever the proxy's TZ was
           CASE WHEN v.startTime[5] = '-' THEN iso_in_ns(v.startTime, NULL) ELSE s_ns(exact_digits(j, '"startTime"\s*:\s*(-?[0-9.]+)', v.startTime)) END AS start_ns,
           CASE WHEN v.endTime[5] = '-' THEN iso_in_ns(v.endTime, NULL) ELSE s_ns(exact_digits(j, '"endTime"\s*:\s*(-?[0-9.]+)', v.endTime)) END AS end_ns,
           CASE WHEN v.completionStartTime[5] = '-' THEN iso_in_ns(v.completionStartTime, NULL) ELSE s_ns(exact_digits(j, '"completionStartTime"\s*:\s*(-?[0-9.]+)', v.completionStartTime)) END AS first_ns,
           v.status AS said, TRY_CAST(v.error_information.error_code AS INTEGER) AS code, to_bool(v.cache_hit) AS cache_hit, v.call_type AS call_type,
           to_count(v.hidden_params.additional_headers."x-litellm-attempted-retries") AS retries, to_count(v.hidden_params.additional_headers."x-litellm-attempted-fallbacks") AS fallbacks, to_count(v.completion_tokens) AS completion_tokens,
           v.model_parameters IS NOT NULL AS has_parameters, tool_list(v.model_parameters.tools) AS tools,
           v.metadata.mcp_tool_call_metadata.name AS mcp_tool
    FROM x
), c AS (
    SELECT *, TRY(end_ns - start_ns) AS raw_e2e,
           CASE WHEN start_s IS NULL OR end_s IS NULL THEN 'no_request_field'
                WHEN call_type IN ('aget_responses', 'get_responses', 'adelete_responses', 'delete_responses', 'acancel_responses',
                                   'cancel_responses', 'alist_input_items', 'list_input_items', 'afile_content', 'acreate_file',
                                   'aretrieve_batch', 'alist_batches') THEN 'bookkeeping_call'
                WHEN v.metadata.internal_call_origin IS NOT NULL OR to_bool(v.metadata.is_silent_experiment) THEN 'internal_call'
                WHEN strpos(v.request_tags, 'litellm-internal-health-check') > 0 THEN 'health_check'
                WHEN start_ns IS NULL OR end_ns IS NULL THEN 'bad_time'
                WHEN end_ns < start_ns THEN 'negative_duration'
                WHEN coalesce(TRY(end_ns - start_ns), 86400000000001) > 86400000000000 THEN 'duration_out_of_range'
                WHEN said NOT IN ('success', 'failure') AND word_class(said) IS NULL OR said IS NULL THEN 'unknown_status'
                WHEN mcp_tool IS NOT NULL AND v.trace_id IS NULL THEN 'tool_without_trace' END AS reason,
           CASE WHEN said = 'success' THEN CASE WHEN code IN (460, 499) THEN 'censored' ELSE 'ok' END
                WHEN said = 'failure' THEN
                    CASE WHEN code IN (408, 460, 499, 504) OR v.error_information.error_class LIKE '%Timeout%' THEN 'censored' ELSE 'error' END
                ELSE word_class(said) END AS state,
           -- strictly inside the call: at the end it is the fallback of the writer, at the start it is no time at all
           CASE WHEN first_ns > start_ns AND first_ns < end_ns
                     AND NOT coalesce(code IN (460, 499) AND completion_tokens = 0, false) THEN TRY(first_ns - start_ns) END AS ttft
    FROM t
)
SELECT line, record,
       CASE WHEN reason IS NULL THEN CASE WHEN mcp_tool IS NOT NULL THEN 'tool' ELSE 'attempt' END
            WHEN reason IN ('bad_time', 'negative_duration', 'duration_out_of_range', 'unknown_status') THEN 'reject'
            ELSE 'not_request' END AS kind,
       reason,
       nullif(concat_ws(',',
           CASE WHEN first_ns < start_ns THEN 'clock_skew'
                WHEN first_ns = start_ns AND end_ns > start_ns THEN 'ttft_zero'
                WHEN first_ns > end_ns THEN 'ttft_beyond_e2e'
                WHEN v.stream = 'true' AND state = 'ok' AND first_ns = end_ns THEN 'ttft_equals_e2e'
                WHEN first_ns IS NOT NULL AND ttft IS NULL AND code IN (460, 499) THEN 'ttft_after_hangup'
                -- an upstream that holds its answer back until it is complete
                WHEN state = 'ok' AND completion_tokens >= 20 AND ttft >= raw_e2e * 0.95 THEN 'ttft_near_e2e' END,
           CASE WHEN said = 'failure' AND raw_e2e = 0 THEN 'zero_length_failure' END), '') AS note,
       -- a session id may stand in trace_id and join a whole conversation; the call id is one request with its retries
       coalesce(to_text(v.litellm_call_id), to_text(v.request_id), to_text(v.trace_id), to_text(v.id)) AS request_id,
       to_text(v.id) AS attempt_id,
       -- of the failed attempts only the first is logged
       TRY_CAST(CASE WHEN said = 'failure' THEN 0 WHEN retries > 0 AND coalesce(fallbacks, 0) = 0 THEN retries END AS INTEGER) AS attempt_no,
       CASE WHEN said = 'failure' THEN 'primary' WHEN retries > 0 OR fallbacks > 0 THEN 'retry' END AS cause,
       to_text(v.trace_id) AS turn_id,
       CASE WHEN NOT coalesce(cache_hit, false) THEN coalesce(to_text(v.metadata.kubernetes_pod_routing.pod_ip), to_text(v.model_id), to_text(v.api_base)) END AS replica,
       coalesce(to_text(v.model_group), to_text(v.model)) AS model,
       to_text(v.metadata.user_api_key_request_route) AS route,
       to_text(v.custom_llm_provider) AS provider,
       coalesce(to_text(v.metadata.user_api_key_auth_metadata.tier), to_text(v.metadata.user_api_key_team_alias)) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       -- a failed row of no length says nothing about time
       CASE WHEN said = 'failure' AND raw_e2e = 0 THEN NULL ELSE raw_e2e END AS e2e_ns,
       ttft AS ttft_ns,
       CASE WHEN ttft IS NOT NULL THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(v.prompt_tokens) AS prompt_tokens,
       coalesce(to_count(v.metadata.usage_object.prompt_tokens_details.cached_tokens), to_count(v.metadata.usage_object.cache_read_input_tokens)) AS cached_tokens,
       completion_tokens,
       to_count(v.metadata.usage_object.completion_tokens_details.reasoning_tokens) AS reasoning_tokens,
       state AS status,
       coalesce(code, CASE WHEN said = 'success' THEN 200 END) AS http_status,
       CASE WHEN state = 'ok' THEN NULL
            WHEN code IS NOT NULL THEN http_kind(code)
            WHEN v.error_information.error_class LIKE '%Timeout%' THEN 'timeout'
            ELSE 'upstream' END AS error_kind,
       coalesce(cache_hit, CASE WHEN said = 'success' OR said = 'failure' THEN false END) AS cache_hit,
       -- true or null, never false: null on a success is a whole answer; a stream cut by the engine has null and a real first token
       CASE WHEN v.stream IS NOT NULL THEN to_bool(v.stream)
            WHEN said = 'success' THEN false
            WHEN ttft IS NOT NULL THEN true
            ELSE to_bool(v.model_parameters.stream) END AS streamed,
       CASE WHEN tools <> '' THEN true WHEN has_parameters THEN false END AS tools_offered,
       coalesce(mcp_tool, nullif(tools, '')) AS tool_names,
       CASE WHEN v.model_parameters.previous_response_id IS NOT NULL OR v.model_parameters.conversation IS NOT NULL THEN true WHEN has_parameters THEN false END AS stored_state,
       CASE WHEN call_type IS NOT NULL THEN call_type LIKE '%batch%' END AS batch,
       TRY_CAST(CASE WHEN has_parameters THEN coalesce(to_count(v.model_parameters.n), 1) END AS INTEGER) AS n_choices,
       to_money(v.response_cost) AS cost,
       CASE WHEN v.response_cost IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM c
