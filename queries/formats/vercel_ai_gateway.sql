-- format: vercel_ai_gateway
-- title: Vercel AI Gateway, GET /v1/generation
-- spec: https://vercel.com/docs/ai-gateway (generation lookup)
-- source: GET https://ai-gateway.vercel.sh/v1/generation?id=gen_...; one answer a line
-- input: json
-- detect: data|generation_time, /"generation_time"/, /"native_tokens_cache_creation"|"billable_web_search_calls"/, !/"provider_responses"/
-- clock: created_at, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, streamed, cost,
--   currency, weight
-- hint: one look-up a generation and no failures: read the client's log for errors, retries and callers that left
-- traps: latency is the time to the first token here, and the total at OpenRouter under the same name ; for whole answers its meaning is not said ; all
--   fields are numbers, so 0 may mean not there ; only generations that exist can be looked up: errors are missing
WITH x AS (
    SELECT line, record, from_json(coalesce(CASE WHEN json_type(j, '$.data') = 'OBJECT' THEN json_extract(j, '$.data') END, CAST(j AS JSON)), '{
        "id": "VARCHAR", "created_at": "VARCHAR", "model": "VARCHAR", "provider_name": "VARCHAR", "streamed": "VARCHAR", "finish_reason": "VARCHAR", "latency": "VARCHAR", "generation_time": "VARCHAR",
        "native_tokens_prompt": "VARCHAR", "native_tokens_completion": "VARCHAR", "native_tokens_reasoning": "VARCHAR", "native_tokens_cached": "VARCHAR", "total_cost": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.created_at, NULL) AS start_ns, nullif(ms_ns(v.generation_time), 0) AS total_ns, to_bool(v.streamed) AS streamed,
           CASE WHEN to_bool(v.streamed) THEN nullif(ms_ns(v.latency), 0) END AS token_ns,
           CASE WHEN v.finish_reason = 'error' THEN 'error' ELSE 'ok' END AS state,
           CASE WHEN v.created_at IS NULL AND v.generation_time IS NULL THEN 'no_request_field' END AS other
    FROM x
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN token_ns = 0 AND total_ns > 0 THEN 'ttft_zero' WHEN token_ns = total_ns THEN 'ttft_equals_e2e' ELSE ttft_fault(token_ns, total_ns) END), '') AS note,
       to_text(v.id) AS request_id,
       to_text(v.model) AS model,
       to_text(v.provider_name) AS provider,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       total_ns AS e2e_ns,
       CASE WHEN token_ns > 0 AND token_ns < total_ns THEN token_ns END AS ttft_ns,
       CASE WHEN token_ns > 0 AND token_ns < total_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.native_tokens_prompt) AS prompt_tokens,
       to_count(v.native_tokens_cached) AS cached_tokens,
       to_count(v.native_tokens_completion) AS completion_tokens,
       to_count(v.native_tokens_reasoning) AS reasoning_tokens,
       state AS status,
       CASE WHEN state <> 'ok' THEN 'upstream' END AS error_kind,
       streamed,
       to_money(v.total_cost) AS cost,
       CASE WHEN v.total_cost IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM t
