-- format: litellm_spendlogs
-- title: LiteLLM proxy, SpendLogs: CSV of the table, or GET /spend/logs/v2
-- spec: https://github.com/BerriAI/litellm/blob/main/schema.prisma (model LiteLLM_SpendLogs)
-- source: COPY "LiteLLM_SpendLogs" TO STDOUT CSV HEADER, or GET /spend/logs/v2?start_date=...&end_date=...
-- input: json
-- detect: request_id, startTime, endTime, spend, call_type|completionStartTime|request_duration_ms, !"litellm_params"
-- clock: wall clock of the proxy; the table has naive UTC whatever the proxy's zone
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_id, attempt_no, cause, turn_id, replica, model, route, provider, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis,
--   resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status, error_kind, cache_hit, streamed,
--   tools_offered, tool_names, stored_state, batch, n_choices, cost, currency, weight
-- one_row: request
-- hint: one row a request: failed attempts are a count without times. The callback payload (format litellm_payload) has the first failed attempt
--   and microseconds; general_settings store_prompts_in_spend_logs adds the request's parameters (stream, tools)
-- traps: completionStartTime equal to endTime is the writer's fallback, so TTFT is unknown ; failure rows span the whole request with all its
--   attempts, and streamed rows after a retry start before the first attempt, but whole answers at the winning one ; timed-out attempts
--   may have rows of their own, <call id>-attempt-N, each with the length of the whole request ; after a fallback attempted_retries
--   is 0 ; cache hits name a replica that was not called ; cache_key is set on every row ; status success with error_code 499 is a client that left ;
--   naive times are UTC ; session_id may be a whole conversation ; rows with an id that was there already are silently not written
-- notes: holds_failed_attempts = rows whose length holds failed attempts too ; billed_attempt = rows of timed-out attempts, whose own length is unknown ;
--   zero_length_failure = failed rows of no length, so their time is unknown ; ttft_near_e2e = first token in the last twentieth of the answer
--   (does something hold answers back?)
WITH x AS (
    SELECT line, record, from_json(j, '{
        "request_id": "VARCHAR", "litellm_call_id": "VARCHAR", "call_type": "VARCHAR", "spend": "VARCHAR", "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR",
        "startTime": "VARCHAR", "endTime": "VARCHAR", "completionStartTime": "VARCHAR", "model": "VARCHAR", "model_id": "VARCHAR", "model_group": "VARCHAR",
        "custom_llm_provider": "VARCHAR", "api_base": "VARCHAR", "cache_hit": "VARCHAR", "request_tags": "VARCHAR", "team_id": "VARCHAR", "session_id": "VARCHAR",
        "status": "VARCHAR", "mcp_namespaced_tool_name": "VARCHAR", "metadata": "VARCHAR", "proxy_server_request": "VARCHAR"}') AS v
    FROM raw
), m AS (
    -- both are JSON as text in the CSV
    SELECT line, record, v,
           from_json(CASE WHEN json_valid(v.metadata) AND v.metadata[1] = '{' THEN v.metadata END, '{
               "status": "VARCHAR", "litellm_call_id": "VARCHAR", "attempted_retries": "VARCHAR", "attempted_fallbacks": "VARCHAR", "original_model_group": "VARCHAR",
               "billed_retry_attempt": "VARCHAR", "internal_call_origin": "VARCHAR", "is_silent_experiment": "VARCHAR", "user_api_key_team_alias": "VARCHAR",
               "user_api_key_request_route": "VARCHAR", "error_information": {"error_code": "VARCHAR", "error_class": "VARCHAR"},
               "usage_object": {"cache_read_input_tokens": "VARCHAR", "prompt_tokens_details": {"cached_tokens": "VARCHAR"},
                                "completion_tokens_details": {"reasoning_tokens": "VARCHAR"}},
               "additional_usage_values": {"cache_read_input_tokens": "VARCHAR", "prompt_tokens_details": {"cached_tokens": "VARCHAR"},
                                           "completion_tokens_details": {"reasoning_tokens": "VARCHAR"}}}') AS m,
           from_json(CASE WHEN json_valid(v.proxy_server_request) AND v.proxy_server_request[1] = '{' THEN v.proxy_server_request END, '{
               "stream": "VARCHAR", "tools": "VARCHAR", "n": "VARCHAR", "previous_response_id": "VARCHAR", "conversation": "VARCHAR", "model": "VARCHAR"}') AS p
    FROM x
), t AS (
    SELECT line, record, v, m, p, iso_in_ns(v.startTime, NULL) AS start_ns, iso_in_ns(v.endTime, NULL) AS end_ns,
           iso_in_ns(v.completionStartTime, NULL) AS first_ns,
           coalesce(to_text(v.status), to_text(m.status), 'success') AS said, TRY_CAST(m.error_information.error_code AS INTEGER) AS code,
           coalesce(to_bool(v.cache_hit), false) AS hit, coalesce(to_count(m.attempted_retries), 0) AS retries,
           coalesce(to_count(m.attempted_fallbacks), 0) AS fallbacks, to_count(v.completion_tokens) AS completion_tokens,
           TRY_CAST(nullif(regexp_extract(v.request_id, '-attempt-(\d+)$', 1), '') AS BIGINT) AS billed,
           p.model IS NOT NULL OR p.stream IS NOT NULL AS has_request, tool_list(p.tools) AS tools, to_text(v.mcp_namespaced_tool_name) AS mcp_tool
    FROM m
), c AS (
    SELECT *, TRY(end_ns - start_ns) AS raw_e2e,
           CASE WHEN v.startTime IS NULL OR v.endTime IS NULL THEN 'no_request_field'
                WHEN v.call_type IN ('aget_responses', 'get_responses', 'adelete_responses', 'delete_responses', 'acancel_responses',
                                     'cancel_responses', 'alist_input_items', 'list_input_items', 'afile_content', 'acreate_file',
                                     'aretrieve_batch', 'alist_batches') THEN 'bookkeeping_call'
                WHEN m.internal_call_origin IS NOT NULL OR to_bool(m.is_silent_experiment) THEN 'internal_call'
                WHEN strpos(v.request_tags, 'litellm-internal-health-check') > 0 THEN 'health_check'
                WHEN start_ns IS NULL OR end_ns IS NULL THEN 'bad_time'
                WHEN end_ns < start_ns THEN 'negative_duration'
                WHEN coalesce(TRY(end_ns - start_ns), 86400000000001) > 86400000000000 THEN 'duration_out_of_range'
                WHEN said NOT IN ('success', 'failure') AND word_class(said) IS NULL THEN 'unknown_status'
                WHEN mcp_tool IS NOT NULL AND to_text(v.session_id) IS NULL THEN 'tool_without_trace' END AS reason,
           CASE WHEN said = 'success' THEN CASE WHEN code IN (460, 499) THEN 'censored' ELSE 'ok' END
                WHEN said = 'failure' THEN
                    CASE WHEN code IN (408, 460, 499, 504) OR m.error_information.error_class LIKE '%Timeout%' THEN 'censored' ELSE 'error' END
                ELSE word_class(said) END AS state,
           CASE WHEN billed IS NULL AND first_ns > start_ns AND first_ns < end_ns
                     AND NOT coalesce(code IN (460, 499) AND completion_tokens = 0, false) THEN TRY(first_ns - start_ns) END AS ttft
    FROM t
), d AS (
    SELECT *, coalesce(to_bool(p.stream), CASE WHEN ttft IS NOT NULL THEN true END) AS streamed FROM c
)
SELECT line, record,
       CASE WHEN reason IS NULL THEN CASE WHEN mcp_tool IS NOT NULL THEN 'tool' ELSE 'attempt' END
            WHEN reason IN ('bad_time', 'negative_duration', 'duration_out_of_range', 'unknown_status') THEN 'reject'
            ELSE 'not_request' END AS kind,
       reason,
       nullif(concat_ws(',',
           CASE WHEN first_ns < start_ns THEN 'clock_skew'
                WHEN streamed AND state = 'ok' AND NOT hit AND first_ns >= end_ns THEN 'ttft_equals_e2e'
                WHEN state = 'ok' AND completion_tokens >= 20 AND ttft >= raw_e2e * 0.95 THEN 'ttft_near_e2e' END,
           CASE WHEN billed IS NOT NULL THEN 'billed_attempt'
                WHEN said = 'failure' AND raw_e2e = 0 THEN 'zero_length_failure'
                WHEN (retries > 0 OR fallbacks > 0) AND (said = 'failure' OR streamed) THEN 'holds_failed_attempts' END), '') AS note,
       -- a session joins a whole conversation; the call id is one request with its retries
       coalesce(regexp_replace(coalesce(to_text(v.litellm_call_id), to_text(m.litellm_call_id)), '-attempt-\d+$', ''), to_text(v.request_id)) AS request_id,
       to_text(v.request_id) AS attempt_id,
       TRY_CAST(coalesce(billed, CASE WHEN fallbacks = 0 THEN retries END) AS INTEGER) AS attempt_no,
       CASE WHEN coalesce(billed, retries) > 0 OR fallbacks > 0 THEN 'retry' ELSE 'primary' END AS cause,
       to_text(v.session_id) AS turn_id,
       CASE WHEN NOT hit THEN coalesce(to_text(v.model_id), to_text(v.api_base)) END AS replica,
       coalesce(to_text(m.original_model_group), to_text(v.model_group), to_text(v.model)) AS model,
       coalesce(to_text(m.user_api_key_request_route), to_text(v.call_type)) AS route,
       to_text(v.custom_llm_provider) AS provider,
       coalesce(to_text(m.user_api_key_team_alias), to_text(v.team_id)) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN billed IS NULL AND NOT (said = 'failure' AND raw_e2e = 0) THEN raw_e2e END AS e2e_ns,
       ttft AS ttft_ns,
       CASE WHEN ttft IS NOT NULL THEN 'first_token' END AS ttft_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       -- a failed row may count tokens that were never read
       CASE WHEN said <> 'failure' OR to_count(v.prompt_tokens) > 0 THEN to_count(v.prompt_tokens) END AS prompt_tokens,
       coalesce(to_count(m.usage_object.prompt_tokens_details.cached_tokens), to_count(m.usage_object.cache_read_input_tokens),
                to_count(m.additional_usage_values.prompt_tokens_details.cached_tokens), to_count(m.additional_usage_values.cache_read_input_tokens)) AS cached_tokens,
       completion_tokens,
       coalesce(to_count(m.usage_object.completion_tokens_details.reasoning_tokens), to_count(m.additional_usage_values.completion_tokens_details.reasoning_tokens)) AS reasoning_tokens,
       state AS status,
       coalesce(code, CASE WHEN said = 'success' THEN 200 END) AS http_status,
       CASE WHEN state = 'ok' THEN NULL
            WHEN code IS NOT NULL THEN http_kind(code)
            WHEN m.error_information.error_class LIKE '%Timeout%' THEN 'timeout'
            ELSE coalesce(word_kind(said), 'upstream') END AS error_kind,
       hit AS cache_hit,
       streamed,
       CASE WHEN tools <> '' THEN true WHEN has_request THEN false END AS tools_offered,
       coalesce(mcp_tool, nullif(tools, '')) AS tool_names,
       CASE WHEN p.previous_response_id IS NOT NULL OR p.conversation IS NOT NULL THEN true WHEN has_request THEN false END AS stored_state,
       CASE WHEN v.call_type IS NOT NULL THEN v.call_type LIKE '%batch%' END AS batch,
       TRY_CAST(CASE WHEN has_request THEN coalesce(to_count(p.n), 1) END AS INTEGER) AS n_choices,
       to_money(v.spend) AS cost,
       CASE WHEN v.spend IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM d
