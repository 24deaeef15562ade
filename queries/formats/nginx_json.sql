-- format: nginx_json
-- title: nginx access log, JSON lines
-- spec: https://nginx.org/en/docs/http/ngx_http_upstream_module.html#variables
-- source: log_format with escape=json; quote every value: "msec":"$msec", "request_id":"$request_id", "method":"$request_method",
--   "uri":"$uri", "status":"$status", "request_time":"$request_time", "request_completion":"$request_completion",
--   "request_length":"$request_length", "upstream_addr":"$upstream_addr", "upstream_status":"$upstream_status",
--   "upstream_header_time":"$upstream_header_time", "upstream_response_time":"$upstream_response_time",
--   "content_type":"$sent_http_content_type"; add "model" and "session_id" from request headers
-- input: json
-- detect: request_time|rt, upstream_response_time|urt, upstream_addr|ua|upstream_header_time|uht, !/"(upstream_response_time|upstream_header_time|urt|uht)": ?[-0-9]/
-- clock: wall clock of the proxy when the row is written, that is the end; the start is the end less request_time
-- resolution: 1ms
-- observer: edge
-- observes: request_id, attempt_no, cause, turn_id, replica, model, route, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns,
--   queue_ns, queue_basis, resolution_ns, prompt_tokens, completion_tokens, request_bytes, response_bytes, status, http_status, error_kind, won, cache_hit,
--   streamed, weight
-- one_row: request
-- hint: nothing in the row tells headers sent before prefill from headers sent with the first token, so TTFT is the first byte; the
--   engine's own spans or metrics split queue, prefill and decode. Log content_type, else a stream cannot be told from a whole answer,
--   and request_completion, else one that was cut looks good
-- traps: the time is that of the end ; lists in one row are attempts, ', ' within a group and ' : ' after an internal redirect, '-' for one that got
--   nowhere ; the name of a group stands for an address when no server could be chosen (502, 0.000), in the middle of a list too ; a
--   caller that leaves in mid-stream is status 200 with an empty request_completion, before the headers it is 499 ; refused
--   connections last 0.000 ; a slow upload is in request_time alone ; without streaming the header time is the whole answer
-- notes: cut_answer = good status but request_completion is empty: the answer was cut or its caller left
WITH x AS (
    SELECT line, record, from_json(j, '{
        "msec": "VARCHAR", "t": "VARCHAR", "time_iso8601": "VARCHAR", "time_local": "VARCHAR", "time": "VARCHAR", "timestamp": "VARCHAR",
        "@timestamp": "VARCHAR", "request_id": "VARCHAR", "req_id": "VARCHAR", "id": "VARCHAR", "client_request_id": "VARCHAR", "session_id": "VARCHAR",
        "trace_id": "VARCHAR", "tenant": "VARCHAR", "segment": "VARCHAR", "model": "VARCHAR", "method": "VARCHAR", "request_method": "VARCHAR",
        "request": "VARCHAR", "uri": "VARCHAR", "request_uri": "VARCHAR", "path": "VARCHAR", "status": "VARCHAR", "request_length": "VARCHAR",
        "bytes_sent": "VARCHAR", "body_bytes_sent": "VARCHAR", "request_time": "VARCHAR", "rt": "VARCHAR", "request_completion": "VARCHAR",
        "upstream_addr": "VARCHAR", "ua": "VARCHAR", "upstream_status": "VARCHAR", "us": "VARCHAR", "upstream_header_time": "VARCHAR",
        "uht": "VARCHAR", "upstream_response_time": "VARCHAR", "urt": "VARCHAR", "upstream_cache_status": "VARCHAR", "upstream_queue_time": "VARCHAR",
        "content_type": "VARCHAR", "sent_http_content_type": "VARCHAR", "prompt_tokens": "VARCHAR", "completion_tokens": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v,
           coalesce(s_ns(coalesce(v.msec, v.t)), time_ns(present(v.time_iso8601)), clf_ns(v.time_local), clf_ns(v.time),
                    time_ns(present(coalesce(v."timestamp", v."@timestamp", v."time")))) AS end_ns,
           s_ns(coalesce(v.request_time, v.rt)) AS total_ns,
           TRY_CAST(v.status AS INTEGER) AS code,
           string_split(replace(coalesce(present(v.upstream_addr), present(v.ua), ''), ' : ', ', '), ', ') AS addrs,
           string_split(replace(coalesce(present(v.upstream_status), present(v.us), ''), ' : ', ', '), ', ') AS states,
           string_split(replace(coalesce(present(v.upstream_header_time), present(v.uht), ''), ' : ', ', '), ', ') AS heads,
           string_split(replace(coalesce(present(v.upstream_response_time), present(v.urt), ''), ' : ', ', '), ', ') AS lasts,
           coalesce(to_text(v."method"), to_text(v.request_method), nullif(regexp_extract(v.request, '^([A-Z]+) ', 1), '')) AS verb,
           coalesce(to_text(v.content_type), to_text(v.sent_http_content_type)) AS content
    FROM x
), p AS (
    -- positions that were sends: not the name of a group, and not an answer that only pointed elsewhere inside nginx
    SELECT *, list_filter(range(1, places + 1), lambda i:
               -- without addresses a place of no time and no headers may be either: a refused connection or a group
               CASE WHEN addrs = [''] THEN i = places OR coalesce(s_ns(lasts[i]), 0) > 0 OR heads[i] <> '-' ELSE strpos(addrs[i], ':') > 0 END
               AND (i = places OR coalesce(TRY_CAST(states[i] AS INTEGER), 0) NOT BETWEEN 200 AND 399)) AS sends,
           coalesce(TRY_CAST(list_sum(list_transform(lasts, lambda s: s_ns(s))) AS BIGINT), 0) AS all_ns
    FROM (SELECT *, greatest(len(addrs), len(lasts)) AS places FROM t)
), q AS (
    SELECT *, unnest(CASE WHEN len(sends) > 0 AND len(sends) <= 64 THEN sends ELSE [places] END) AS i FROM p
), a AS (
    SELECT *, coalesce(list_position(sends, i), 1) - 1 AS k, i = coalesce(sends[-1], i) AS last,
           -- a large body is read before the first send
           CASE WHEN to_count(v.request_length) >= 65536 AND total_ns - all_ns > 5000000 THEN total_ns - all_ns ELSE 0 END AS upload_ns,
           coalesce(TRY_CAST(list_sum(list_transform(list_slice(lasts, 1, i - 1), lambda s: s_ns(s))) AS BIGINT), 0) AS before_ns,
           s_ns(present(heads[i])) AS head_ns, s_ns(present(lasts[i])) AS own_ns,
           CASE WHEN content LIKE 'text/event-stream%' THEN true WHEN content IS NOT NULL AND code BETWEEN 200 AND 299 THEN false END AS streamed
    FROM q
), b AS (
    SELECT *, CASE WHEN k > 0 THEN least(upload_ns + before_ns, total_ns) ELSE 0 END AS lag_ns,
           CASE WHEN last AND code = 499 THEN 499
                ELSE coalesce(TRY_CAST(states[i] AS INTEGER), CASE WHEN last THEN code END) END AS own_code,
           last AND code BETWEEN 200 AND 399 AND trim(v.request_completion) IN ('', '-') AS cut
    FROM a
), c AS (
    SELECT *, CASE WHEN cut THEN 'censored' ELSE coalesce(http_class(own_code), CASE WHEN NOT last THEN 'error' END) END AS state,
           -- from the start of this attempt to its headers, the upload included
           CASE WHEN k = 0 THEN upload_ns + before_ns ELSE 0 END + head_ns AS to_headers_ns
    FROM b
)
SELECT line, record,
       CASE WHEN end_ns IS NULL AND total_ns IS NULL THEN 'not_request'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN end_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN end_ns IS NULL AND total_ns IS NULL THEN 'no_request_field'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN end_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN coalesce(v.msec, v.t) IS NULL AND is_naive(present(coalesce(v.time_iso8601, v."timestamp", v."@timestamp", v."time"))) THEN 'naive_time' END,
                        CASE WHEN cut THEN 'cut_answer' END,
                        CASE WHEN last AND streamed AND state = 'ok' AND verb IN ('POST', 'PUT') THEN ttft_fault(to_headers_ns, total_ns - lag_ns + 1000000) END), '') AS note,
       coalesce(to_text(v.request_id), to_text(v.req_id), to_text(v.id), to_text(v.client_request_id)) AS request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       coalesce(to_text(v.session_id), to_text(v.trace_id)) AS turn_id,
       CASE WHEN strpos(addrs[i], ':') > 0 THEN addrs[i] END AS replica,
       to_text(v.model) AS model,
       split_part(coalesce(to_text(v.uri), to_text(v.request_uri), to_text(v.path), nullif(regexp_extract(v.request, '^[A-Z]+ (\S+)', 1), '')), '?', 1) AS route,
       coalesce(to_text(v.tenant), to_text(v.segment)) AS segment,
       'edge' AS observer,
       TRY(end_ns - total_ns + lag_ns) AS arrival_ns,
       -- a refused connection is written as 0.000: no time at all
       CASE WHEN last THEN CASE WHEN total_ns - lag_ns = 0 AND state <> 'ok' THEN NULL ELSE total_ns - lag_ns END
            ELSE nullif(least(own_ns + CASE WHEN k = 0 THEN upload_ns ELSE 0 END, total_ns), 0) END AS e2e_ns,
       CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns BETWEEN 1 AND total_ns - lag_ns THEN to_headers_ns END AS ttft_ns,
       CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns BETWEEN 1 AND total_ns - lag_ns THEN 'first_byte' END AS ttft_basis,
       CASE WHEN to_headers_ns BETWEEN 0 AND total_ns + 1000000 THEN to_headers_ns END AS headers_ns,
       -- the commercial queue directive; each entry is the wait of one send
       s_ns(present(string_split(replace(v.upstream_queue_time, ' : ', ', '), ', ')[i])) AS queue_ns,
       CASE WHEN s_ns(present(string_split(replace(v.upstream_queue_time, ' : ', ', '), ', ')[i])) IS NOT NULL THEN 'measured' END AS queue_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.prompt_tokens) AS prompt_tokens,
       CASE WHEN last THEN to_count(v.completion_tokens) END AS completion_tokens,
       to_count(v.request_length) AS request_bytes,
       CASE WHEN last THEN coalesce(to_count(v.body_bytes_sent), to_count(v.bytes_sent)) END AS response_bytes,
       state AS status, own_code AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN cut THEN 'client_gone' WHEN own_code IS NULL THEN 'upstream' ELSE http_kind(own_code) END AS error_kind,
       CASE WHEN len(sends) > 1 THEN last AND state = 'ok' END AS won,
       CASE WHEN v.upstream_cache_status IN ('HIT', 'STALE', 'UPDATING', 'REVALIDATED') THEN true
            WHEN present(v.upstream_cache_status) IS NOT NULL THEN false END AS cache_hit,
       streamed,
       CAST(1 AS DOUBLE) AS weight
FROM c
