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
    SELECT line, record, coalesce(v.msec, v.t) IS NULL AND is_naive(present(coalesce(v.time_iso8601, v."timestamp", v."@timestamp", v."time"))) AS naive,
           coalesce(s_ns(coalesce(v.msec, v.t)), time_ns(present(v.time_iso8601)), clf_ns(v.time_local), clf_ns(v.time),
                    time_ns(present(coalesce(v."timestamp", v."@timestamp", v."time")))) AS end_ns,
           s_ns(coalesce(v.request_time, v.rt)) AS total_ns,
           TRY_CAST(v.status AS INTEGER) AS code,
           nginx_list(coalesce(present(v.upstream_addr), present(v.ua))) AS addrs, nginx_list(coalesce(present(v.upstream_status), present(v.us))) AS states,
           nginx_list(coalesce(present(v.upstream_header_time), present(v.uht))) AS heads, nginx_list(coalesce(present(v.upstream_response_time), present(v.urt))) AS lasts,
           CASE WHEN v.upstream_queue_time IS NOT NULL THEN nginx_list(v.upstream_queue_time) END AS waits,
           coalesce(to_text(v."method"), to_text(v.request_method), nullif(regexp_extract(v.request, '^([A-Z]+) ', 1), '')) AS verb,
           coalesce(to_text(v.uri), to_text(v.request_uri), to_text(v.path), nullif(regexp_extract(v.request, '^[A-Z]+ (\S+)', 1), '')) AS path,
           coalesce(to_text(v.content_type), to_text(v.sent_http_content_type)) AS content, trim(v.request_completion) AS completion, v.upstream_cache_status AS cache,
           coalesce(to_text(v.request_id), to_text(v.req_id), to_text(v.id), to_text(v.client_request_id)) AS request_id,
           coalesce(to_text(v.session_id), to_text(v.trace_id)) AS turn_id, to_text(v.model) AS model, coalesce(to_text(v.tenant), to_text(v.segment)) AS segment,
           to_count(v.prompt_tokens) AS prompt_tokens, to_count(v.completion_tokens) AS completion_tokens, to_count(v.request_length) AS request_bytes,
           coalesce(to_count(v.body_bytes_sent), to_count(v.bytes_sent)) AS response_bytes
    FROM x
)
SELECT line, record,
       CASE WHEN end_ns IS NULL AND total_ns IS NULL THEN 'not_request'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN end_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR status IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN end_ns IS NULL AND total_ns IS NULL THEN 'no_request_field'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN end_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN status IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN naive THEN 'naive_time' END, doubts), '') AS note,
       * EXCLUDE (line, record, end_ns, total_ns, code, verb, naive, doubts)
FROM nginx_rows('t')
