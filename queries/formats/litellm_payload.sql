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
--   unmarked ; trace_id may be a whole session, so the request is litellm_call_id ; queue time is missing
WITH x AS (
    SELECT line, record, j, json_extract_string(j, [
        '/id', '/litellm_call_id', '/trace_id', '/request_id', '/call_type', '/stream', '/status', '/startTime', '/completionStartTime', '/endTime',
        '/model', '/model_group', '/model_id', '/api_base', '/custom_llm_provider', '/prompt_tokens', '/completion_tokens', '/cache_hit',
        '/response_cost', '/error_information/error_code', '/error_information/error_class', '/error_str',
        '/metadata/user_api_key_request_route', '/metadata/user_api_key_auth_metadata/tier', '/metadata/user_api_key_team_alias',
        '/metadata/usage_object/prompt_tokens_details/cached_tokens', '/metadata/usage_object/cache_read_input_tokens',
        '/metadata/usage_object/completion_tokens_details/reasoning_tokens',
        '/hidden_params/additional_headers/x-litellm-attempted-retries', '/hidden_params/additional_headers/x-litellm-attempted-fallbacks',
        '/metadata/internal_call_origin', '/metadata/is_silent_experiment', '/metadata/mcp_tool_call_metadata/name',
        '/model_parameters/tools', '/model_parameters/n', '/model_parameters/stream', '/model_parameters/previous_response_id',
        '/model_parameters/conversation', '/metadata/kubernetes_pod_routing/pod_ip', '/model_parameters', '/request_tags']) AS v
    FROM raw
), t AS (
    SELECT line, record, v,
           v[8] AS start_s, v[10] AS end_s,
           -- numbers are epoch seconds; text is ISO and, without a zone, UTC whatever the proxy's TZ was
           CASE WHEN v[8][5] = '-' THEN iso_in_ns(v[8], NULL) ELSE s_ns(exact_digits(j, '"startTime"\s*:\s*(-?[0-9.]+)', v[8])) END AS start_ns,
           CASE WHEN v[10][5] = '-' THEN iso_in_ns(v[10], NULL) ELSE s_ns(exact_digits(j, '"endTime"\s*:\s*(-?[0-9.]+)', v[10])) END AS end_ns,
           CASE WHEN v[9][5] = '-' THEN iso_in_ns(v[9], NULL) ELSE s_ns(exact_digits(j, '"completionStartTime"\s*:\s*(-?[0-9.]+)', v[9])) END AS first_ns,
           v[7] AS said, TRY_CAST(v[20] AS INTEGER) AS code, to_bool(v[18]) AS cache_hit, v[5] AS call_type,
           to_count(v[29]) AS retries, to_count(v[30]) AS fallbacks, to_count(v[17]) AS completion_tokens,
           v[40] IS NOT NULL AS has_parameters, tool_list(v[34]) AS tools,
           v[33] AS mcp_tool
    FROM x
), c AS (
    SELECT *, end_ns - start_ns AS raw_e2e,
           CASE WHEN said = 'success' THEN CASE WHEN code IN (460, 499) THEN 'censored' ELSE 'ok' END
                WHEN said = 'failure' THEN
                    CASE WHEN code IN (408, 460, 499, 504) OR v[21] LIKE '%Timeout%' THEN 'censored' ELSE 'error' END
                ELSE word_class(said) END AS state,
           -- strictly inside the call: at the end it is the fallback of the writer, at the start it is no time at all
           CASE WHEN first_ns > start_ns AND first_ns < end_ns
                     AND NOT coalesce(code IN (460, 499) AND completion_tokens = 0, false) THEN first_ns - start_ns END AS ttft
    FROM t
)
SELECT line, record,
       CASE WHEN start_s IS NULL OR end_s IS NULL THEN 'not_request'
            WHEN call_type IN ('aget_responses', 'get_responses', 'adelete_responses', 'delete_responses', 'acancel_responses',
                               'alist_input_items', 'list_input_items', 'afile_content', 'acreate_file', 'aretrieve_batch', 'alist_batches')
                 OR v[31] IS NOT NULL OR to_bool(v[32]) OR v[41] LIKE '%litellm-internal-health-check%' THEN 'not_request'
            WHEN start_ns IS NULL OR end_ns IS NULL OR raw_e2e < 0 OR raw_e2e > 86400000000000 OR state IS NULL THEN 'reject'
            WHEN mcp_tool IS NOT NULL AND v[3] IS NOT NULL THEN 'tool'
            WHEN mcp_tool IS NOT NULL THEN 'not_request'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_s IS NULL OR end_s IS NULL THEN 'no_request_field'
            WHEN call_type LIKE '%get_responses' OR call_type LIKE '%delete_responses' OR call_type LIKE '%cancel_responses'
                 OR call_type LIKE '%list_input_items' OR call_type IN ('afile_content', 'acreate_file', 'aretrieve_batch', 'alist_batches')
                THEN 'bookkeeping_call'
            WHEN v[31] IS NOT NULL OR to_bool(v[32]) THEN 'internal_call'
            WHEN v[41] LIKE '%litellm-internal-health-check%' THEN 'health_check'
            WHEN start_ns IS NULL OR end_ns IS NULL THEN 'bad_time'
            WHEN raw_e2e < 0 THEN 'negative_duration'
            WHEN raw_e2e > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status'
            WHEN mcp_tool IS NOT NULL AND v[3] IS NULL THEN 'tool_without_trace' END AS reason,
       nullif(concat_ws(',',
           CASE WHEN first_ns < start_ns THEN 'clock_skew'
                WHEN first_ns = start_ns THEN 'ttft_zero'
                WHEN v[6] = 'true' AND state = 'ok' AND first_ns >= end_ns THEN 'ttft_equals_e2e'
                WHEN first_ns IS NOT NULL AND ttft IS NULL AND code IN (460, 499) THEN 'ttft_after_hangup' END,
           CASE WHEN said = 'failure' AND raw_e2e = 0 THEN 'zero_length_failure' END), '') AS note,
       -- a session id may stand in trace_id and join a whole conversation; the call id is one request with its retries
       coalesce(to_text(v[2]), to_text(v[4]), to_text(v[3]), to_text(v[1])) AS request_id,
       to_text(v[1]) AS attempt_id,
       -- of the failed attempts only the first is logged
       CAST(CASE WHEN said = 'failure' THEN 0 WHEN retries > 0 AND coalesce(fallbacks, 0) = 0 THEN retries END AS INTEGER) AS attempt_no,
       CASE WHEN said = 'failure' THEN 'primary' WHEN retries > 0 OR fallbacks > 0 THEN 'retry' END AS cause,
       to_text(v[3]) AS turn_id,
       CASE WHEN NOT coalesce(cache_hit, false) THEN coalesce(to_text(v[39]), to_text(v[13]), to_text(v[14])) END AS replica,
       coalesce(to_text(v[12]), to_text(v[11])) AS model,
       to_text(v[23]) AS route,
       to_text(v[15]) AS provider,
       coalesce(to_text(v[24]), to_text(v[25])) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       -- a failed row of no length says nothing about time
       CASE WHEN said = 'failure' AND raw_e2e = 0 THEN NULL ELSE raw_e2e END AS e2e_ns,
       ttft AS ttft_ns,
       CASE WHEN ttft IS NOT NULL THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(v[16]) AS prompt_tokens,
       coalesce(to_count(v[26]), to_count(v[27])) AS cached_tokens,
       completion_tokens,
       to_count(v[28]) AS reasoning_tokens,
       state AS status,
       coalesce(code, CASE WHEN said = 'success' THEN 200 END) AS http_status,
       CASE WHEN state = 'ok' THEN NULL
            WHEN code IS NOT NULL THEN http_kind(code)
            WHEN v[21] LIKE '%Timeout%' THEN 'timeout'
            ELSE 'upstream' END AS error_kind,
       coalesce(cache_hit, CASE WHEN said = 'success' OR said = 'failure' THEN false END) AS cache_hit,
       -- true or null, never false: null on a success is a whole answer; a stream cut by the engine has null and a real first token
       CASE WHEN v[6] IS NOT NULL THEN to_bool(v[6])
            WHEN said = 'success' THEN false
            WHEN ttft IS NOT NULL THEN true
            ELSE to_bool(v[36]) END AS streamed,
       CASE WHEN tools <> '' THEN true WHEN has_parameters THEN false END AS tools_offered,
       coalesce(mcp_tool, nullif(tools, '')) AS tool_names,
       CASE WHEN v[37] IS NOT NULL OR v[38] IS NOT NULL THEN true WHEN has_parameters THEN false END AS stored_state,
       CASE WHEN call_type IS NOT NULL THEN call_type LIKE '%batch%' END AS batch,
       CAST(CASE WHEN has_parameters THEN coalesce(to_count(v[35]), 1) END AS INTEGER) AS n_choices,
       to_money(v[19]) AS cost,
       CASE WHEN v[19] IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM c
