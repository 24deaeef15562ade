-- format: envoy_upstream
-- title: Envoy router upstream_log, JSON, one row an attempt
-- spec: https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/http/router/v3/router.proto
-- source: router filter upstream_log with json_format: x_request_id "%REQ(X-REQUEST-ID)%", start_epoch "%START_TIME(%s.%6f)%", duration, response_code,
--   response_flags, upstream_host, pool_ready_duration, attempt_header "%REQ(X-ENVOY-ATTEMPT-COUNT)%", content_type "%RESP(CONTENT-TYPE)%" and in
--   microseconds cd_to_us_rx_beg "%COMMON_DURATION(DS_RX_BEG:US_RX_BEG:us)%", cd_to_us_rx_body_beg (US_RX_BODY_BEG), cd_us_rx (US_RX_BEG:US_RX_END)
-- input: json
-- detect: start_time|start_epoch, response_flags, upstream_host, attempt_header
-- clock: wall clock of the proxy at the start of the attempt, UTC
-- resolution: 1us
-- observer: edge
-- observes: request_id, turn_id, replica, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns, queue_ns, queue_basis,
--   resolution_ns, request_bytes, response_bytes, status, http_status, error_kind, streamed, weight
-- hint: read this log or the access log of the same proxy, not both: they tell of the same requests. Without content_type a stream is told by a
--   body that took more than 10 ms to come
-- traps: rows are in the order in which attempts ended, and x-envoy-attempt-count is the same in both rows of a hedged pair: attempts are numbered
--   by start ; UT with 200 is a per-try timeout that struck while the answer went on ; code 0 is an attempt that was given up, a
--   loser or a caller that left ; 200 without an end of the answer was cut: cd_us_rx null, or left out where others of the file have it (omit_empty_values) ; attempt_count is 0 in every row ; bytes are seen from the proxy: bytes_sent is the request
-- notes: end_unlogged = good answers of a log that does not say whether they came to their end, cut ones among them: log cd_us_rx
WITH w AS (
    -- a file that has the point at all leaves it out only where it was never reached
    SELECT line >> 40 AS file, bool_or(contains(CAST(j AS VARCHAR), '"cd_us_rx"')) AS says_end FROM raw GROUP BY file
), x AS (
    SELECT line, record, from_json(j, '{
        "start_time": "VARCHAR", "start_epoch": "VARCHAR", "duration": "VARCHAR", "response_code": "VARCHAR", "response_flags": "VARCHAR",
        "upstream_host": "VARCHAR", "x_request_id": "VARCHAR", "x-request-id": "VARCHAR", "request_id": "VARCHAR", "client_request_id": "VARCHAR", "session_id": "VARCHAR",
        "model": "VARCHAR", "content_type": "VARCHAR", "response_duration": "VARCHAR", "pool_ready_duration": "VARCHAR", "cd_to_us_rx_beg": "VARCHAR",
        "cd_to_us_rx_body_beg": "VARCHAR", "cd_us_rx": "VARCHAR", "bytes_received": "VARCHAR", "bytes_sent": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v,
           coalesce(s_ns(v.start_epoch), time_ns(present(v.start_time))) AS start_ns,
           ms_ns(v.duration) AS total_ns, TRY_CAST(v.response_code AS INTEGER) AS code,
           string_split(coalesce(present(v.response_flags), ''), ',') AS flags,
           coalesce(us_ns(v.cd_to_us_rx_beg), ms_ns(v.response_duration)) AS head_ns,
           us_ns(v.cd_to_us_rx_body_beg) AS body_ns, us_ns(v.cd_us_rx) AS answer_ns,
           ms_ns(v.pool_ready_duration) AS pool_ns,
           says_end,
           -- the point is logged, and this answer never got there
           says_end AND v.cd_us_rx IS NULL AND v.cd_to_us_rx_beg IS NOT NULL AS cut
    FROM x JOIN w ON w.file = x.line >> 40
), s AS (
    SELECT *,
           -- to the microsecond where the points are there
           CASE WHEN head_ns + answer_ns BETWEEN total_ns - 2000000 AND total_ns + 2000000 THEN head_ns + answer_ns ELSE total_ns END AS length_ns,
           CASE WHEN v.content_type LIKE 'text/event-stream%' THEN true
                WHEN present(v.content_type) IS NOT NULL AND code BETWEEN 200 AND 299 THEN false
                WHEN coalesce(head_ns + answer_ns, total_ns) - body_ns > 10000000 AND code BETWEEN 200 AND 299 THEN true END AS streamed,
           CASE WHEN list_has_any(flags, ['UF', 'UC', 'UR', 'LR', 'UPE', 'UH', 'UO', 'NR']) AND (code = 0 OR code BETWEEN 200 AND 399) THEN 'error'
                WHEN list_has_any(flags, ['DC']) OR code = 0 THEN 'censored'
                WHEN code BETWEEN 200 AND 399 AND cut THEN 'censored'
                ELSE http_class(code) END AS state
    FROM t
), f AS (
    SELECT *, CASE WHEN state <> 'error' AND streamed AND coalesce(body_ns, head_ns) BETWEEN 1 AND length_ns THEN coalesce(body_ns, head_ns) END AS first_ns FROM s
)
SELECT line, record,
       CASE WHEN start_ns IS NULL AND total_ns IS NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL AND total_ns IS NULL THEN 'no_request_field'
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN is_naive(present(v.start_time)) AND s_ns(v.start_epoch) IS NULL THEN 'naive_time' END,
           CASE WHEN state = 'ok' AND NOT says_end THEN 'end_unlogged' END,
           CASE WHEN state <> 'error' AND streamed THEN ttft_fault(coalesce(body_ns, head_ns), length_ns) END, part_fault(pool_ns, total_ns + 1000000)), '') AS note,
       coalesce(to_text(v.x_request_id), to_text(v."x-request-id"), to_text(v.request_id), to_text(v.client_request_id)) AS request_id,
       to_text(v.session_id) AS turn_id,
       regexp_replace(to_text(v.upstream_host), '^tcp://', '') AS replica,
       to_text(v.model) AS model,
       'edge' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN length_ns > 0 OR state = 'ok' THEN length_ns END AS e2e_ns,
       first_ns AS ttft_ns,
       CASE WHEN first_ns IS NOT NULL THEN CASE WHEN body_ns IS NOT NULL THEN 'first_token' ELSE 'first_byte' END END AS ttft_basis,
       CASE WHEN head_ns BETWEEN 0 AND total_ns + 1000000 THEN head_ns END AS headers_ns,
       CASE WHEN pool_ns BETWEEN 0 AND total_ns + 1000000 THEN pool_ns END AS queue_ns,
       CASE WHEN pool_ns BETWEEN 0 AND total_ns + 1000000 THEN 'measured' END AS queue_basis,
       CAST(CASE WHEN v.start_epoch IS NOT NULL AND length_ns = head_ns + answer_ns THEN 1000 ELSE 1000000 END AS BIGINT) AS resolution_ns,
       to_count(v.bytes_sent) AS request_bytes,
       to_count(v.bytes_received) AS response_bytes,
       state AS status,
       nullif(code, 0) AS http_status,
       CASE WHEN state = 'ok' THEN NULL
            WHEN state = 'error' AND (code = 0 OR code < 400) THEN 'upstream'
            WHEN state = 'censored' AND list_has_any(flags, ['UT', 'SI']) THEN 'timeout'
            WHEN state = 'censored' AND code < 400 THEN 'client_gone'
            ELSE http_kind(code) END AS error_kind,
       streamed,
       CAST(1 AS DOUBLE) AS weight
FROM f
