-- format: haproxy_json
-- title: HAProxy log-format JSON, bare or through syslog
-- spec: https://docs.haproxy.org/2.6/configuration.html#8.2.6
-- source: log-format '{"ts":"%trg","accept_epoch":"%Ts.%ms","id":"%ID","backend":"%b","server":"%s","TR":"%TR","Tw":"%Tw","Tc":"%Tc","Tr":"%Tr",
--   "Ta":"%Ta","Th":"%Th","Ti":"%Ti","status":"%ST","bytes_read":"%B","term":"%tsc","retries":"%rc","request_id":"%[capture.req.hdr(0),json(utf8s)]",
--   "model":"%[capture.req.hdr(1),json(utf8s)]","content_type":"%[capture.res.hdr(0),json(utf8s)]","request":"%[capture.req.method] %[capture.req.uri,json(utf8s)]"}'
-- input: text
-- detect: /^[^{]*\{.*"(Tw|TR)": ?"?[-+\d].*"Ta": ?"?[-+\d]/
-- clock: wall clock of the proxy: accept_epoch is the accept, and the request begins Th + Ti later; ts is to 1 s
-- resolution: 1ms
-- observer: edge
-- observes: request_id, attempt_no, cause, turn_id, replica, pool, model, route, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns,
--   queue_ns, queue_basis, resolution_ns, completion_tokens, request_bytes, response_bytes, status, http_status, error_kind, won, streamed, weight
-- one_row: request
-- hint: nothing in the row tells headers sent before prefill from headers sent with the first token, so TTFT is the first byte. Without
--   content_type a stream is not known. Quote every value: retries is written as +1
-- traps: with retries Tw holds the failed attempts and is no queue time, and Tc, Tr and the server are the last attempt's ; -1 and below are
--   stages never reached ; a total with + was logged at the headers and is unknown ; sD with 200 is a stream cut by a timer, CD a
--   caller that left ; CH gives a status 400 that nobody saw ; Tt, Tq and Ti hold idle time of the connection ; bare numbers give lines
--   that are no valid JSON (+1) ; TR holds headers only, a slow upload is in Tr ; lines on servers going up and down are in the same log
-- notes: logged_at_headers = rows written at the response headers (option logasap), so their length is unknown ; failed_in_queue_time = rows
--   with retries, whose failed attempts stand in Tw: no queue time, and one length at most
WITH x AS (
    -- +1 is no JSON number
    SELECT line, record, text, regexp_replace(regexp_extract(text, '\{.*\}'), '":\s*\+(\d+)', '":"+\1"', 'g') AS j FROM raw
), y AS (
    -- a struct would take TR and Tr for one name
    SELECT line, record, text, json_extract_string(CASE WHEN json_valid(j) THEN j END,
               ['/TR', '/Tw', '/Tc', '/Tr', '/Ta', '/Th', '/Ti', '/ts', '/accept_epoch', '/time', '/status', '/term', '/termination_state', '/retries', '/server',
                '/backend', '/method', '/request', '/path', '/uri', '/request_id', '/id', '/session_id', '/model', '/content_type', '/bytes_uploaded',
                '/bytes_read', '/completion_tokens']) AS w
    FROM x
), z AS (
    SELECT line, record, text, w[1] AS h, w[2] AS q, w[3] AS c, w[4] AS r, w[5] AS a, w[6] AS shake, w[7] AS idle, w[8] AS ts, w[9] AS epoch, w[10] AS clock,
           w[11] AS status, w[12] AS term, w[13] AS term_2, w[14] AS retries, w[15] AS server, w[16] AS backend, w[17] AS verb, w[18] AS request,
           w[19] AS path, w[20] AS uri, w[21] AS request_id, w[22] AS id, w[23] AS session_id, w[24] AS model, w[25] AS content_type,
           w[26] AS bytes_uploaded, w[27] AS bytes_read, w[28] AS completion_tokens
    FROM y
), t AS (
    SELECT line, record, text,
           coalesce(s_ns(epoch) + coalesce(to_count(shake), 0) * 1000000 + coalesce(to_count(idle), 0) * 1000000,
                    clf_ns(ts), time_ns(present(ts)), time_ns(present(clock))) AS start_ns,
           s_ns(epoch) IS NULL AND clf_ns(ts) IS NULL AND is_naive(present(coalesce(ts, clock))) AS naive,
           to_count(h) * 1000000 AS request_ns, to_count(q) * 1000000 AS wait_ns, to_count(c) * 1000000 AS connect_ns,
           to_count(r) * 1000000 AS answer_ns, to_count(a) * 1000000 AS total_ns, coalesce(starts_with(a, '+'), false) AS asap,
           TRY_CAST(status AS INTEGER) AS code, coalesce(term, term_2, '----') AS term, to_count(retries) AS retries,
           to_text(server) AS server, to_text(backend) AS backend,
           coalesce(to_text(verb), nullif(regexp_extract(request, '^([A-Z]+)', 1), '')) AS verb,
           coalesce(to_text(path), to_text(uri), nullif(regexp_extract(request, '^[A-Z]+ (\S+)', 1), '')) AS path,
           coalesce(to_text(request_id), to_text(id)) AS request_id, to_text(session_id) AS turn_id, to_text(model) AS model,
           CASE WHEN content_type LIKE 'text/event-stream%' THEN true
                WHEN present(content_type) IS NOT NULL AND TRY_CAST(status AS INTEGER) BETWEEN 200 AND 299 THEN false END AS streamed,
           to_count(bytes_uploaded) AS sent_bytes, to_count(bytes_read) AS got_bytes, to_count(completion_tokens) AS completion_tokens
    FROM z
)
FROM haproxy_rows('t')
