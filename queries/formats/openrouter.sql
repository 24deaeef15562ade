-- format: openrouter
-- title: OpenRouter, GET /api/v1/generation
-- spec: https://openrouter.ai/docs/api-reference/get-a-generation
-- source: GET https://openrouter.ai/api/v1/generation?id=gen-...; one answer a line
-- input: json
-- detect: data|generation_time, /"generation_time"/, /"provider_responses"/
-- clock: created_at, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_no, cause, turn_id, replica, model, provider, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens, cached_tokens,
--   completion_tokens, reasoning_tokens, status, http_status, error_kind, won, cache_hit, streamed, cost, currency, weight
-- one_row: request
-- hint: one look-up a generation: there is no export; for TTFT and total that are certain, log them at the client
-- traps: latency is documented as the total but is below generation_time for streams: there it is read as the time to the first token, and the total is
--   latency + generation_time ; provider_responses holds one entry an attempt, each with the time to its headers ; tokens_* are normalised,
--   native_tokens_* are billed ; throughput on the site uses the whole time ; cancelled is a caller that left
-- notes: latency_is_first_token = streams whose latency is read as the time to the first token, and whose total as latency + generation_time
WITH x AS (
    SELECT line, record, from_json(coalesce(CASE WHEN json_type(j, '$.data') = 'OBJECT' THEN json_extract(j, '$.data') END, CAST(j AS JSON)), '{
        "id": "VARCHAR", "created_at": "VARCHAR", "model": "VARCHAR", "provider_name": "VARCHAR", "streamed": "VARCHAR", "cancelled": "VARCHAR", "finish_reason": "VARCHAR", "latency": "VARCHAR",
        "generation_time": "VARCHAR", "native_tokens_prompt": "VARCHAR", "native_tokens_completion": "VARCHAR", "native_tokens_reasoning": "VARCHAR", "native_tokens_cached": "VARCHAR",
        "total_cost": "VARCHAR", "session_id": "VARCHAR", "external_user": "VARCHAR", "response_cache_source_id": "VARCHAR",
        "provider_responses": [{"status": "VARCHAR", "endpoint_id": "VARCHAR", "provider_name": "VARCHAR", "latency": "VARCHAR"}]}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, iso_in_ns(v.created_at, NULL) AS start_ns, ms_ns(v.latency) AS latency_ns, ms_ns(v.generation_time) AS making_ns, to_bool(v.streamed) AS streamed,
           present(v.response_cache_source_id) IS NOT NULL AS hit, coalesce(to_bool(v.cancelled), false) AS left_early,
           CASE WHEN to_bool(v.cancelled) THEN 'censored' WHEN v.finish_reason = 'error' THEN 'error' ELSE 'ok' END AS whole_state,
           coalesce(len(v.provider_responses), 0) AS places,
           CASE WHEN v.created_at IS NULL AND v.latency IS NULL THEN 'no_request_field' END AS other
    FROM x
), s AS (
    SELECT *, streamed AND NOT hit AND NOT left_early AND making_ns > 0 AS split,
           CASE WHEN streamed AND NOT hit AND NOT left_early AND making_ns > 0 THEN latency_ns + making_ns ELSE latency_ns END AS total_ns
    FROM t
), e AS (
    SELECT *, unnest(CASE WHEN places BETWEEN 2 AND 16 THEN range(0, places) ELSE [0] END) AS k FROM s
), a AS (
    SELECT *, places BETWEEN 2 AND 16 AS again, k = CASE WHEN places BETWEEN 2 AND 16 THEN places - 1 ELSE 0 END AS last,
           coalesce(TRY_CAST(list_sum(list_transform(list_slice(v.provider_responses, 1, k), lambda p: ms_ns(p.latency))) AS BIGINT), 0) AS before_ns,
           v.provider_responses[k + 1] AS own, TRY_CAST(v.provider_responses[k + 1].status AS INTEGER) AS code
    FROM e
), c AS (
    SELECT *, least(before_ns, latency_ns) AS lag_ns,
           CASE WHEN last AND whole_state <> 'ok' THEN whole_state ELSE coalesce(http_class(code), CASE WHEN last THEN whole_state ELSE 'error' END) END AS state
    FROM a
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
       nullif(concat_ws(',', CASE WHEN last AND split THEN 'latency_is_first_token' END), '') AS note,
       to_text(v.id) AS request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       to_text(v.session_id) AS turn_id,
       CASE WHEN NOT hit THEN to_text(own.endpoint_id) END AS replica,
       to_text(v.model) AS model,
       coalesce(to_text(own.provider_name), CASE WHEN last THEN to_text(v.provider_name) END) AS provider,
       to_text(v.external_user) AS segment,
       'gateway' AS observer,
       TRY(start_ns + lag_ns) AS arrival_ns,
       CASE WHEN last THEN CASE WHEN total_ns - lag_ns > 0 OR state = 'ok' THEN total_ns - lag_ns END ELSE CASE WHEN ms_ns(own.latency) > 0 THEN least(ms_ns(own.latency), total_ns) END END AS e2e_ns,
       CASE WHEN last AND split AND state = 'ok' AND latency_ns > lag_ns THEN latency_ns - lag_ns END AS ttft_ns,
       CASE WHEN last AND split AND state = 'ok' AND latency_ns > lag_ns THEN 'first_token' END AS ttft_basis,
       CASE WHEN last AND split THEN making_ns END AS decode_ns,
       CASE WHEN last AND split THEN 'measured' END AS decode_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.native_tokens_prompt) AS prompt_tokens,
       to_count(v.native_tokens_cached) AS cached_tokens,
       CASE WHEN last THEN to_count(v.native_tokens_completion) END AS completion_tokens,
       CASE WHEN last THEN to_count(v.native_tokens_reasoning) END AS reasoning_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN last AND left_early THEN 'client_gone' ELSE coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN again THEN last AND state = 'ok' END AS won,
       hit AS cache_hit,
       streamed,
       CASE WHEN last THEN to_money(v.total_cost) END AS cost,
       CASE WHEN last AND v.total_cost IS NOT NULL THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM c
