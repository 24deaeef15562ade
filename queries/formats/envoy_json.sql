-- format: envoy_json
-- title: Envoy and Envoy Gateway access log, JSON, typed or all strings
-- spec: https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage
-- source: access_log with log_format json_format; besides the usual keys add start_epoch "%START_TIME(%s.%6f)%", content_type
--   "%RESP(CONTENT-TYPE)%", pool_ready_duration "%UPSTREAM_CONNECTION_POOL_READY_DURATION%", attempt_count
--   "%UPSTREAM_REQUEST_ATTEMPT_COUNT%", and in microseconds cd_to_us_tx_beg "%COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)%",
--   cd_to_us_rx_beg (US_RX_BEG), cd_to_us_rx_body_beg (US_RX_BODY_BEG), cd_us_rx_body_beg_to_end "%COMMON_DURATION(US_RX_BODY_BEG:US_RX_END:us)%"
--   and cd_total (DS_RX_BEG:DS_TX_END)
-- input: json
-- detect: start_time|start_epoch, response_flags|response_code_details, duration, upstream_host|upstream_cluster, !attempt_header, !token_latency_ttft, !"gen_ai.request.model"
-- clock: wall clock of the proxy at the start of the request, UTC
-- resolution: 1ms
-- observer: edge
-- observes: request_id, attempt_no, cause, turn_id, replica, model, route, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns,
--   queue_ns, queue_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens, completion_tokens, request_bytes, response_bytes, status,
--   http_status, error_kind, won, streamed, weight
-- one_row: request
-- hint: without content_type a stream cannot be told from a whole answer and no first token is read; without cd_to_us_rx_body_beg the
--   first token is the response headers', which an engine may send before prefill. The upstream log has one row an attempt
-- traps: RESPONSE_DURATION stops at the headers ; x-envoy-upstream-service-time and RESPONSE_DURATION include failed attempts, back-off and the
--   hedge delay ; 200 with URX or UO is a good answer, 200 with DC a client that left, 200 with UT a stream that was cut ; code 0 has no
--   answer ; a whole answer cannot be split into prefill and decode ; a hedged row does not say so: attempts of 2 with a first send at about 0 means
--   the primary won, one at the hedge delay means the copy won ; UPSTREAM_HOSTS_ATTEMPTED names one host at most ; US_CX_* belong to the
--   connection, not to the request ; text formats write '-' for null and every value as text
-- notes: hedge_inferred = the copy won, told by the time of its send beside rows that the primary won ; attempt_times_unknown = several attempts and no
--   time of the last send: log cd_to_us_tx_beg ; first_byte_only = streams with headers but no body time, so TTFT is the headers': log cd_to_us_rx_body_beg
WITH x AS (
    SELECT line, record, from_json(j, '{
        "start_time": "VARCHAR", "start_epoch": "VARCHAR", "method": "VARCHAR", "path": "VARCHAR", "x-envoy-origin-path": "VARCHAR",
        "response_code": "INTEGER", "response_flags": "VARCHAR", "response_code_details": "VARCHAR", "upstream_host": "VARCHAR", "upstream_cluster": "VARCHAR",
        "route_name": "VARCHAR", "x_request_id": "VARCHAR", "x-request-id": "VARCHAR", "request_id": "VARCHAR", "stream_id": "VARCHAR", "session_id": "VARCHAR",
        "tenant": "VARCHAR", "segment": "VARCHAR", "model": "VARCHAR", "content_type": "VARCHAR",
        "attempt_count": "BIGINT", "upstream_request_attempt_count": "BIGINT", "bytes_received": "BIGINT", "bytes_sent": "BIGINT",
        "upstream_wire_bytes_received": "BIGINT", "prompt_tokens": "BIGINT", "completion_tokens": "BIGINT",
        "duration": "DECIMAL(18, 6)", "request_duration": "DECIMAL(18, 6)", "request_tx_duration": "DECIMAL(18, 6)",
        "response_duration": "DECIMAL(18, 6)", "response_tx_duration": "DECIMAL(18, 6)", "pool_ready_duration": "DECIMAL(18, 6)",
        "upstream_pool_ready_duration": "DECIMAL(18, 6)", "upstream_service_time": "DECIMAL(18, 6)",
        "x-envoy-upstream-service-time": "DECIMAL(18, 6)", "x_envoy_upstream_service_time": "DECIMAL(18, 6)", "cd_ms_body_beg": "DECIMAL(18, 6)",
        "cd_total": "DECIMAL(18, 3)", "cd_to_us_tx_beg": "DECIMAL(18, 3)", "cd_to_us_rx_beg": "DECIMAL(18, 3)",
        "cd_to_us_rx_body_beg": "DECIMAL(18, 3)", "cd_us_rx_body_beg_to_end": "DECIMAL(18, 3)"}') AS v
    FROM raw
), u AS (
    SELECT line, record, v, s_ns(v.start_epoch) AS epoch_ns FROM x
), t AS (
    -- the record's text ends here: what comes later is gathered over all rows, and would carry it along
    SELECT line, record,
           coalesce(to_text(v.x_request_id), to_text(v."x-request-id"), to_text(v.request_id), to_text(v.stream_id)) AS request_id,
           to_text(v.session_id) AS turn_id, to_text(v.upstream_host) AS host, to_text(v.model) AS model,
           coalesce(to_text(v.route_name), to_text(v.path), to_text(v."x-envoy-origin-path")) AS route,
           coalesce(to_text(v.tenant), to_text(v.segment)) AS segment, present(v.method) AS method,
           to_count(v.prompt_tokens) AS prompt_tokens, to_count(v.completion_tokens) AS completion_tokens,
           to_count(v.bytes_received) AS request_bytes, to_count(v.bytes_sent) AS response_bytes,
           to_count(v.upstream_wire_bytes_received) AS wire_bytes, from_us(v.cd_us_rx_body_beg_to_end) AS body_to_end_ns,
           coalesce(epoch_ns, time_ns(present(v.start_time))) AS start_ns,
           CASE WHEN epoch_ns IS NULL THEN is_naive(present(v.start_time)) END AS naive,
           coalesce(from_us(v.cd_total), from_ms(v.duration)) AS total_ns,
           v.response_code AS code,
           -- where the flags are not logged, the details say the same in words
           coalesce(present(v.response_flags), CASE regexp_extract(v.response_code_details, '^[a-z_]+')
               WHEN 'downstream_remote_disconnect' THEN 'DC' WHEN 'stream_idle_timeout' THEN 'SI'
               WHEN 'upstream_response_timeout' THEN 'UT' WHEN 'response_timeout' THEN 'UT' WHEN 'upstream_per_try_timeout' THEN 'UT'
               WHEN 'upstream_max_stream_duration_reached' THEN 'UMSDR' WHEN 'max_duration_timeout' THEN 'DT'
               WHEN 'upstream_reset_after_response_started' THEN 'UR' END, '') AS flags,
           coalesce(to_count(v.attempt_count), to_count(v.upstream_request_attempt_count)) AS attempts,
           CASE WHEN v.content_type LIKE 'text/event-stream%' THEN true
                WHEN present(v.content_type) IS NOT NULL AND v.response_code BETWEEN 200 AND 299 THEN false END AS streamed,
           coalesce(from_ms(v.pool_ready_duration), from_ms(v.upstream_pool_ready_duration)) AS pool_ns,
           coalesce(from_us(v.cd_to_us_rx_body_beg), from_ms(v.cd_ms_body_beg)) AS body_ns,
           coalesce(from_us(v.cd_to_us_rx_beg), from_ms(v.response_duration), from_ms(v.upstream_service_time),
                    from_ms(v."x-envoy-upstream-service-time"), from_ms(v.x_envoy_upstream_service_time)) AS to_headers_ns,
           coalesce(from_us(v.cd_to_us_tx_beg), from_ms(v.request_tx_duration) - coalesce(from_ms(v.request_duration), 0)) AS sent_ns
    FROM u
), s AS (
    SELECT *,
           CASE WHEN code = 0 THEN 'censored'
                WHEN flags = '' THEN http_class(code)
                WHEN list_has_any(string_split(flags, ','), ['DC']) THEN 'censored'
                -- an answer that began and was cut: by a timer (longer than seen) or by the connection (broken)
                WHEN code BETWEEN 200 AND 399 AND list_has_any(string_split(flags, ','), ['UT', 'SI', 'UMSDR', 'DT']) THEN 'censored'
                WHEN code BETWEEN 200 AND 399 AND list_has_any(string_split(flags, ','), ['UC', 'UR', 'LR', 'UPE', 'OM']) THEN 'error'
                ELSE http_class(code) END AS state,
           -- start of the attempt that answered: its send, less its own wait for a connection
           greatest(coalesce(sent_ns, 0) - coalesce(pool_ns, 0), 0) AS lost_ns
    FROM t
), h AS (
    SELECT *, coalesce(attempts, 1) >= 2 AS again,
           -- overlapping attempts and the first one answered: its own send is the answer's, and the wire counter is the copy's
           coalesce(attempts, 1) >= 2 AND sent_ns IS NOT NULL AND lost_ns <= 2000000 AND to_headers_ns > 5000000
               AND coalesce(wire_bytes = 0, true) AS primary_won
    FROM s
), g AS (
    -- in a log with hedged rows that the primary won, none of them can have answered before the hedge delay: a copy sent about then or
    -- later that won is a hedge too, one sent earlier followed a failure
    SELECT *, min(CASE WHEN primary_won THEN to_headers_ns END) OVER () AS delay_ns FROM h
), f AS (
    SELECT *, again AND NOT primary_won AND sent_ns IS NOT NULL AND lost_ns >= delay_ns * 0.9 AS copy_won FROM g
), e AS (
    SELECT *, unnest(CASE WHEN again THEN range(0, least(attempts, 16)) ELSE [0] END) AS k FROM f
), a AS (
    -- k = the attempt that answered: 0 if the primary won, else the last one
    SELECT *, (primary_won OR copy_won) AS hedged, k = CASE WHEN primary_won THEN 0 ELSE greatest(coalesce(attempts, 1), 1) - 1 END
              OR (NOT again) AS answered,
           -- how much later than the request this attempt began
           CASE WHEN k > 0 THEN least(lost_ns, total_ns) ELSE 0 END AS lag_ns
    FROM e
)
SELECT line, record,
       CASE WHEN start_ns IS NULL AND total_ns IS NULL THEN 'not_request'
            WHEN method NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL AND total_ns IS NULL THEN 'no_request_field'
            WHEN method NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',',
           CASE WHEN naive THEN 'naive_time' END,
           CASE WHEN copy_won AND k = 0 THEN 'hedge_inferred' END,
           CASE WHEN again AND sent_ns IS NULL AND answered THEN 'attempt_times_unknown' END,
           CASE WHEN streamed AND body_ns IS NULL AND to_headers_ns IS NOT NULL AND answered THEN 'first_byte_only' END,
           CASE WHEN answered AND streamed AND state <> 'error' THEN ttft_fault(coalesce(body_ns, to_headers_ns) - lag_ns, total_ns - lag_ns) END,
           CASE WHEN answered THEN coalesce(part_fault(pool_ns, total_ns + 1000000), CASE WHEN streamed THEN part_fault(body_to_end_ns, total_ns) END) END), '') AS note,
       request_id,
       TRY_CAST(CASE WHEN again THEN k ELSE 0 END AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' WHEN hedged THEN 'hedge' ELSE 'retry' END AS cause,
       turn_id,
       CASE WHEN answered THEN regexp_replace(host, '^tcp://', '') END AS replica,
       model,
       route,
       segment,
       'edge' AS observer,
       -- what an attempt that is not in the row did is not known: it carries the request's start and, if its end is known, a duration
       CASE WHEN answered THEN start_ns + lag_ns ELSE start_ns END AS arrival_ns,
       CASE WHEN answered THEN greatest(total_ns - lag_ns, 0)
            WHEN copy_won AND k = 0 AND to_headers_ns BETWEEN 0 AND total_ns THEN to_headers_ns END AS e2e_ns,
       CASE WHEN answered AND state <> 'error' AND streamed AND coalesce(body_ns, to_headers_ns) BETWEEN lag_ns + 1 AND total_ns
            THEN coalesce(body_ns, to_headers_ns) - lag_ns END AS ttft_ns,
       CASE WHEN answered AND state <> 'error' AND streamed AND coalesce(body_ns, to_headers_ns) BETWEEN lag_ns + 1 AND total_ns
            THEN CASE WHEN body_ns IS NOT NULL THEN 'first_token' ELSE 'first_byte' END END AS ttft_basis,
       CASE WHEN answered AND to_headers_ns BETWEEN lag_ns AND total_ns + 1000000 THEN to_headers_ns - lag_ns END AS headers_ns,
       CASE WHEN answered AND pool_ns BETWEEN 0 AND total_ns + 1000000 THEN pool_ns END AS queue_ns,
       CASE WHEN answered AND pool_ns BETWEEN 0 AND total_ns + 1000000 THEN 'measured' END AS queue_basis,
       CASE WHEN answered AND streamed AND body_ns IS NOT NULL AND body_to_end_ns BETWEEN 0 AND total_ns
            THEN body_to_end_ns END AS decode_ns,
       CASE WHEN answered AND streamed AND body_ns IS NOT NULL AND body_to_end_ns BETWEEN 0 AND total_ns
            THEN 'measured' END AS decode_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       prompt_tokens,
       CASE WHEN answered THEN completion_tokens END AS completion_tokens,
       request_bytes,
       CASE WHEN answered THEN response_bytes END AS response_bytes,
       CASE WHEN answered THEN state WHEN hedged THEN 'censored' ELSE 'error' END AS status,
       CASE WHEN answered AND code > 0 THEN code END AS http_status,
       CASE WHEN NOT answered THEN CASE WHEN hedged THEN 'loser' ELSE 'upstream' END
            WHEN state = 'ok' THEN NULL
            WHEN list_has_any(string_split(flags, ','), ['DC']) OR code = 0 THEN 'client_gone'
            WHEN list_has_any(string_split(flags, ','), ['UT', 'SI', 'UMSDR', 'DT']) THEN 'timeout'
            WHEN list_has_any(string_split(flags, ','), ['RL', 'RLSE']) THEN 'rate_limited'
            WHEN code BETWEEN 200 AND 399 THEN 'upstream'
            ELSE http_kind(code) END AS error_kind,
       CASE WHEN again THEN answered AND state = 'ok' END AS won,
       streamed,
       CAST(1 AS DOUBLE) AS weight
FROM a
