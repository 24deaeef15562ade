-- name: formats/_flat
-- What a TOML mapping compiles to: raw(line, record, j) -> rows, one a record. Followed by _flat_attempt or _flat_request.
-- {{...}} are filled by hedgectl/formats/compile.py: names and constants as quoted literals, conversions from a closed list.
-- x: one JSON pass a record. s: text of every field, NULL where the mapping has none. t: typed. d, c: derived and bounded. r: judged.
WITH x AS (
    SELECT line, record, j, {{extraction}} FROM raw
), s AS (
    SELECT line, record,
           {{texts}},
           {{skipped}} AS skipped
    FROM x
), t AS (
    SELECT line, record, skipped, ts_s, end_s, e2e_s, ttft_s, queue_s, prefill_s, decode_s, tool_wait_s, status_s, request_id_s, cost_s,
           {{ts}} AS ts,
           {{end}} AS end_at,
           {{first_token}} AS first_token,
           {{e2e}} AS e2e,
           {{ttft}} AS ttft,
           {{headers}} AS headers_raw,
           {{queue}} AS queue_raw,
           {{prefill}} AS prefill_raw,
           {{decode}} AS decode_raw,
           {{tool_wait}} AS tool_wait_raw,
           {{hedge_delay}} AS hedge_delay,
           {{naive}} AS naive,
           request_id_s AS request_id, attempt_id_s AS attempt_id, turn_id_s AS turn_id,
           replica_s AS replica, pool_s AS pool, model_s AS model, route_s AS route,
           provider_s AS provider, segment_s AS segment, currency_s AS currency,
           loser_replica_s AS loser_replica,
           to_count(attempt_s) AS attempt, to_count(attempt_no_s) AS number, to_count(prompt_tokens_s) AS prompt,
           to_count(cached_tokens_s) AS cached_tokens, to_count(completion_tokens_s) AS completion_tokens,
           to_count(reasoning_tokens_s) AS reasoning_tokens, to_count(request_bytes_s) AS request_bytes,
           to_count(response_bytes_s) AS response_bytes, to_count(n_choices_s) AS n_choices,
           to_bool(won_s) AS won, to_bool(cache_hit_s) AS cache_hit, to_bool(streamed_s) AS streamed,
           coalesce(to_bool(tools_offered_s), to_bool(tools_s), TRY_CAST(tools_s AS DOUBLE) > 0) AS tools_said, to_bool(stored_state_s) AS stored_state, to_bool(batch_s) AS batch,
           to_bool(sticky_session_s) AS sticky_session,
           to_bool(closed_loop_s) AS closed_loop, to_bool(hedged_s) AS hedged_said, to_bool(hedge_won_s) AS hedge_won,
           {{cost}} AS cost, TRY_CAST(weight_s AS DOUBLE) AS weight, tool_list(tools_s) AS tool_names,
           CASE lower(hedge_role_s) WHEN 'primary' THEN 'primary' WHEN 'original' THEN 'primary'
                WHEN 'hedge' THEN 'hedge' WHEN 'backup' THEN 'hedge' WHEN 'retry' THEN 'retry' WHEN 'fallback' THEN 'retry' END AS role,
           TRY_CAST(status_s AS INTEGER) AS code,
           CASE WHEN status_s IN ({{status_ok}}) THEN 'ok'
                WHEN status_s IN ({{status_error}}) THEN 'error'
                WHEN status_s IN ({{status_censored}}) THEN 'censored'
                WHEN status_s IS NULL THEN
                    CASE WHEN coalesce(lower(error_s), '') IN ('', 'false', '0', '{}', '[]', 'none', 'null') THEN 'ok' ELSE 'error' END
                WHEN TRY_CAST(status_s AS INTEGER) IS NOT NULL THEN http_class(TRY_CAST(status_s AS INTEGER))
                ELSE word_class(status_s) END AS status
    FROM s
), d AS (
    SELECT *, coalesce(e2e, TRY(end_at - ts)) AS e2e_raw,
           -- another machine's first token tells nothing but how far its clock is behind
           coalesce(ttft, CASE WHEN NOT {{cross_clock}} OR first_token < ts THEN TRY(first_token - ts) END) AS ttft_raw,
           -- the longest that a part may be; TRY: absurd values must not end in an overflow
           least(coalesce(TRY(coalesce(e2e, end_at - ts) + {{resolution_ns}}), 86400000000000), 86400000000000) AS longest
    FROM t
), c AS (
    SELECT *, coalesce(ts, TRY(end_at - e2e_raw)) AS arrival_ns,
           coalesce(hedged_said, hedge_delay IS NOT NULL) AS hedged,
           -- a first token at the very end is the writer's fallback, unless the answer has one token
           CASE WHEN ttft_raw > 0 AND ttft_raw <= longest
                     AND NOT coalesce(ttft_raw >= e2e_raw AND status = 'ok' AND completion_tokens IS DISTINCT FROM 1, false)
                THEN least(ttft_raw, coalesce(e2e_raw, ttft_raw))
                -- kept as evidence of two clocks, never used as a time
                WHEN ttft_raw < 0 THEN greatest(ttft_raw, -86400000000000) END AS ttft_ns,
           CASE WHEN headers_raw BETWEEN 0 AND longest THEN headers_raw END AS headers_ns,
           CASE WHEN queue_raw BETWEEN 0 AND longest THEN queue_raw END AS queue_ns,
           CASE WHEN prefill_raw BETWEEN 0 AND longest THEN prefill_raw END AS prefill_ns,
           CASE WHEN decode_raw BETWEEN 0 AND longest THEN decode_raw END AS decode_ns,
           CASE WHEN tool_wait_raw BETWEEN 0 AND longest THEN tool_wait_raw END AS tool_wait_ns
    FROM d
), r AS (
    SELECT *,
           CASE WHEN skipped THEN 'filtered'
                WHEN ts_s IS NULL AND end_s IS NULL AND e2e_s IS NULL AND ttft_s IS NULL THEN 'no_request_field'
                WHEN e2e_s IS NULL AND end_s IS NULL AND ttft_s IS NULL AND status_s IS NULL AND request_id_s IS NULL
                    THEN 'no_request_field' END AS not_request,
           CASE WHEN (ts_s IS NOT NULL AND ts IS NULL) OR (end_s IS NOT NULL AND end_at IS NULL)
                     OR coalesce(ts, end_at) NOT BETWEEN -7258118399999999999 AND 7258118399999999999 THEN 'bad_time'
                WHEN {{timed}} AND ts_s IS NULL AND end_s IS NULL THEN 'no_time'
                WHEN e2e_s IS NOT NULL AND e2e IS NULL THEN
                    CASE WHEN {{unitless}} AND TRY_CAST(e2e_s AS DOUBLE) IS NOT NULL THEN 'no_unit' ELSE 'bad_duration' END
                WHEN e2e_raw < 0 THEN 'negative_duration'
                WHEN e2e_raw > 86400000000000 THEN 'duration_out_of_range'
                WHEN status IS NULL THEN 'unknown_status' END AS bad
    FROM c
), rows AS (
    SELECT line, record,
           CASE WHEN not_request IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind,
           coalesce(not_request, bad) AS reason,
           nullif(concat_ws(',',
               CASE WHEN naive THEN 'naive_time' END,
               CASE WHEN ttft_raw < 0 THEN 'clock_skew'
                    WHEN ttft_raw = 0 THEN 'ttft_zero'
                    WHEN ttft_raw IS NOT NULL AND ttft_ns IS NULL AND ttft_raw > longest THEN 'ttft_beyond_e2e'
                    WHEN ttft_raw IS NOT NULL AND ttft_ns IS NULL THEN 'ttft_equals_e2e'
                    WHEN ttft_s IS NOT NULL AND ttft IS NULL THEN 'ttft_unreadable'
                    WHEN status = 'ok' AND completion_tokens >= 20 AND ttft_ns >= e2e_raw * 0.95 THEN 'ttft_near_e2e'
                    WHEN {{cross_clock}} AND first_token IS NOT NULL THEN 'cross_clock' END,
               CASE WHEN (queue_s IS NOT NULL AND queue_ns IS NULL) OR (prefill_s IS NOT NULL AND prefill_ns IS NULL)
                         OR (decode_s IS NOT NULL AND decode_ns IS NULL) OR (tool_wait_s IS NOT NULL AND tool_wait_ns IS NULL)
                    THEN 'component_out_of_range' END), '') AS note,
           request_id, attempt_id,
           -- writers count retries and hedges apart: a copy numbered like its original is numbered by its start instead
           TRY_CAST(CASE WHEN role = 'hedge' THEN NULL ELSE coalesce(number, attempt - 1) END AS INTEGER) AS attempt_no,
           role AS cause, turn_id, replica, pool, model, route, provider, segment, {{observer}} AS observer,
           arrival_ns, e2e_raw AS e2e_ns, ttft_ns, CASE WHEN ttft_ns > 0 THEN {{ttft_basis}} END AS ttft_basis, headers_ns,
           queue_ns, CASE WHEN queue_ns IS NOT NULL THEN 'measured' END AS queue_basis,
           prefill_ns, CASE WHEN prefill_ns IS NOT NULL THEN 'measured' END AS prefill_basis,
           decode_ns, CASE WHEN decode_ns IS NOT NULL THEN 'measured' END AS decode_basis,
           tool_wait_ns, CASE WHEN tool_wait_ns IS NOT NULL THEN 'measured' END AS tool_wait_basis,
           CAST({{resolution_ns}} AS BIGINT) AS resolution_ns,
           CASE WHEN {{prompt_excludes_cached}} THEN prompt + coalesce(cached_tokens, 0) ELSE prompt END AS prompt_tokens,
           cached_tokens, completion_tokens, reasoning_tokens, request_bytes, response_bytes, status,
           CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
           CASE WHEN status = 'ok' THEN NULL WHEN code IS NOT NULL THEN http_kind(code) ELSE word_kind(status_s) END AS error_kind,
           won, cache_hit, streamed, coalesce(tools_said, tool_names <> '') AS tools_offered, stored_state, sticky_session, batch,
           TRY_CAST(n_choices AS INTEGER) AS n_choices, nullif(tool_names, '') AS tool_names, closed_loop,
           cost, CASE WHEN cost_s IS NOT NULL THEN coalesce(currency, {{currency}}) END AS currency, coalesce(weight, 1) AS weight,
           hedged, hedge_delay, hedge_won, loser_replica
    FROM r
)
