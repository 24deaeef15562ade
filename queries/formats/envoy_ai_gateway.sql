-- format: envoy_ai_gateway
-- title: Envoy AI Gateway access log, JSON
-- spec: https://aigateway.envoyproxy.io/docs/capabilities/observability/accesslogs
-- source: EnvoyProxy spec.telemetry.accessLog, JSON sink with %DYNAMIC_METADATA(io.envoy.ai_gateway:KEY)% and llmRequestCosts in the AIGatewayRoute
-- input: json
-- detect: start_time, duration, token_latency_ttft|"gen_ai.request.model"|"gen_ai.usage.input_tokens"|mcp_tool_name|"mcp.tool.name", !"start_time_unix_nano"
-- clock: wall clock of the proxy at the start of the request, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, turn_id, replica, pool, model, route, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns, decode_ns, decode_basis,
--   resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, request_bytes, response_bytes, status, http_status,
--   error_kind, streamed, weight
-- one_row: request
-- hint: token and latency keys need at least one llmRequestCosts entry; log upstream_request_attempt_count, else retries are not seen
-- traps: token_latency_ttft starts anew with every retry while duration holds all attempts, so after a retry the first token is not known from
--   the request's start ; error rows lose model, backend and tokens: the host remains ; MCP calls are rows of the same log: tool time ;
--   the inter-token latency is (stream end - first token) / (tokens - 1) ; key names are the operator's own ; code 0 has no answer
-- notes: ttft_of_last_attempt = after a retry the first token is timed from the last attempt, so TTFT is unknown
WITH x AS (
    SELECT line, record, from_json(j, '{
        "start_time": "VARCHAR", "duration": "VARCHAR", "method": "VARCHAR", "path": "VARCHAR", "request.path": "VARCHAR", "x-envoy-origin-path": "VARCHAR", "response_code": "VARCHAR",
        "response_flags": "VARCHAR", "upstream_host": "VARCHAR", "upstream_cluster": "VARCHAR", "route_name": "VARCHAR", "x-request-id": "VARCHAR", "x_request_id": "VARCHAR", "request_id": "VARCHAR",
        "session.id": "VARCHAR", "session_id": "VARCHAR", "gen_ai.request.model": "VARCHAR", "gen_ai.response.model": "VARCHAR", "gen_ai.provider.name": "VARCHAR", "model": "VARCHAR",
        "backend_name": "VARCHAR", "ai_service_backend_name": "VARCHAR", "gen_ai.usage.input_tokens": "VARCHAR", "gen_ai.usage.output_tokens": "VARCHAR", "gen_ai.usage.reasoning_tokens": "VARCHAR",
        "gen_ai.usage.cached_tokens": "VARCHAR", "gen_ai.usage.cache_read_input_tokens": "VARCHAR", "llm_input_token": "VARCHAR", "llm_output_token": "VARCHAR", "llm_reasoning_token": "VARCHAR", "llm_cached_input_token": "VARCHAR",
        "token_latency_ttft": "VARCHAR", "token_latency_itl": "VARCHAR", "upstream_request_attempt_count": "VARCHAR", "attempt_count": "VARCHAR",
        "x-envoy-upstream-service-time": "VARCHAR", "bytes_received": "VARCHAR", "bytes_sent": "VARCHAR", "mcp_tool_name": "VARCHAR", "mcp.tool.name": "VARCHAR",
        "mcp_method": "VARCHAR", "mcp.method.name": "VARCHAR", "mcp.session.id": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, time_ns(present(v.start_time)) AS start_ns, ms_ns(v.duration) AS total_ns, TRY_CAST(v.response_code AS INTEGER) AS code,
           string_split(coalesce(present(v.response_flags), ''), ',') AS flags,
           coalesce(to_count(v.upstream_request_attempt_count), to_count(v.attempt_count), 1) > 1 AS again,
           ms_ns(v.token_latency_ttft) AS token_ns, ms_ns(v."x-envoy-upstream-service-time") AS service_ns,
           coalesce(to_count(v."gen_ai.usage.output_tokens"), to_count(v.llm_output_token)) AS completion_tokens,
           coalesce(present(v.mcp_tool_name), present(v."mcp.tool.name")) AS tool,
           coalesce(present(v.mcp_method), present(v."mcp.method.name")) AS rpc,
           coalesce(to_text(v."session.id"), to_text(v.session_id), to_text(v."mcp.session.id")) AS turn
    FROM x
), s AS (
    SELECT *,
           CASE WHEN list_has_any(flags, ['DC']) OR code = 0 THEN 'censored'
                WHEN code BETWEEN 200 AND 399 AND list_has_any(flags, ['UT', 'SI', 'UMSDR', 'DT']) THEN 'censored'
                WHEN code BETWEEN 200 AND 399 AND list_has_any(flags, ['UC', 'UR', 'LR', 'UPE', 'OM']) THEN 'error'
                ELSE http_class(code) END AS state,
           CASE WHEN NOT again AND token_ns > 0 AND token_ns < total_ns THEN token_ns END AS first_ns,
           CASE WHEN completion_tokens > 1 THEN TRY_CAST(ms_ns(v.token_latency_itl) * (completion_tokens - 1) AS BIGINT) END AS rest_ns
    FROM t
)
SELECT line, record,
       CASE WHEN start_ns IS NULL AND total_ns IS NULL OR v."method" NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            WHEN tool IS NOT NULL AND turn IS NOT NULL THEN 'tool'
            WHEN tool IS NOT NULL OR rpc IS NOT NULL THEN 'not_request'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL AND total_ns IS NULL THEN 'no_request_field'
            WHEN v."method" NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status'
            WHEN tool IS NOT NULL AND turn IS NULL THEN 'tool_without_trace'
            WHEN rpc IS NOT NULL AND tool IS NULL THEN 'not_a_generation' END AS reason,
       nullif(concat_ws(',', CASE WHEN is_naive(present(v.start_time)) THEN 'naive_time' END,
           CASE WHEN again AND token_ns IS NOT NULL THEN 'ttft_of_last_attempt' WHEN token_ns = 0 AND total_ns > 0 THEN 'ttft_zero'
                WHEN token_ns = total_ns THEN 'ttft_equals_e2e' ELSE ttft_fault(token_ns, total_ns) END,
           part_fault(rest_ns, total_ns)), '') AS note,
       coalesce(to_text(v."x-request-id"), to_text(v.x_request_id), to_text(v.request_id)) AS request_id,
       turn AS turn_id,
       regexp_replace(to_text(v.upstream_host), '^tcp://', '') AS replica,
       coalesce(to_text(v.upstream_cluster), to_text(v.backend_name)) AS pool,
       coalesce(to_text(v."gen_ai.request.model"), to_text(v.model), to_text(v."gen_ai.response.model")) AS model,
       coalesce(to_text(v.route_name), to_text(v."request.path"), to_text(v."x-envoy-origin-path"), to_text(v.path)) AS route,
       coalesce(to_text(v."gen_ai.provider.name"), to_text(v.ai_service_backend_name)) AS provider,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       first_ns AS ttft_ns,
       CASE WHEN first_ns IS NOT NULL THEN 'first_token' END AS ttft_basis,
       CASE WHEN service_ns BETWEEN 0 AND total_ns + 1000000 THEN service_ns END AS headers_ns,
       CASE WHEN rest_ns BETWEEN 0 AND total_ns THEN rest_ns END AS decode_ns,
       CASE WHEN rest_ns BETWEEN 0 AND total_ns THEN 'measured' END AS decode_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       coalesce(to_count(v."gen_ai.usage.input_tokens"), to_count(v.llm_input_token)) AS prompt_tokens,
       coalesce(to_count(v."gen_ai.usage.cached_tokens"), to_count(v."gen_ai.usage.cache_read_input_tokens"), to_count(v.llm_cached_input_token)) AS cached_tokens,
       completion_tokens,
       coalesce(to_count(v."gen_ai.usage.reasoning_tokens"), to_count(v.llm_reasoning_token)) AS reasoning_tokens,
       to_count(v.bytes_received) AS request_bytes, to_count(v.bytes_sent) AS response_bytes,
       state AS status, nullif(code, 0) AS http_status,
       CASE WHEN state = 'ok' THEN NULL
            WHEN list_has_any(flags, ['DC']) OR code = 0 THEN 'client_gone'
            WHEN list_has_any(flags, ['UT', 'SI', 'UMSDR', 'DT']) THEN 'timeout'
            WHEN list_has_any(flags, ['RL', 'RLSE']) THEN 'rate_limited'
            WHEN code BETWEEN 200 AND 399 THEN 'upstream'
            ELSE http_kind(code) END AS error_kind,
       -- the two latencies are written for streams alone
       CASE WHEN token_ns IS NOT NULL THEN true WHEN state = 'ok' AND completion_tokens IS NOT NULL THEN false END AS streamed,
       tool AS tool_names,
       CAST(1 AS DOUBLE) AS weight
FROM s
