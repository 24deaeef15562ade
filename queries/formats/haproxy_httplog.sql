-- format: haproxy_httplog
-- title: HAProxy option httplog, bare or through syslog
-- spec: https://docs.haproxy.org/2.6/configuration.html#8.2.3
-- source: option httplog, without option logasap; capture request header X-Request-Id len 64 and capture response header Content-Type len 32
-- input: text
-- detect: /\S:\d+ \[\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d\.\d{3}\] \S+ \S+\/\S+ -?\d+\/-?\d+\/-?\d+\/-?\d+\/\+?-?\d+ -?\d+ /
-- clock: wall clock of the proxy at the first byte of the request, local time without a zone (give --tz)
-- resolution: 1ms
-- observer: edge
-- observes: request_id, attempt_no, cause, replica, pool, route, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns, queue_ns, queue_basis,
--   resolution_ns, response_bytes, status, http_status, error_kind, won, streamed, weight
-- one_row: request
-- hint: nothing in the row tells headers sent before prefill from headers sent with the first token, so TTFT is the first byte. Without a
--   captured Content-Type a stream is not known, without a captured id rows cannot be joined to other logs; a JSON log-format names
--   its fields and can give the time with its zone (%trg)
-- traps: with retries Tw holds the failed attempts and is no queue time, and Tc, Tr and the server are the last attempt's ; -1 and below are
--   stages never reached ; a total with + was logged at the headers and is unknown ; sD with 200 is a stream cut by a timer, CD a
--   caller that left ; CH gives a status 400 that nobody saw ; without option abortonclose the row runs on after the caller left, and
--   may look good ; without option http-no-delay callers see tokens up to 0.2 s later than any timer says ; TR holds headers only, a
--   slow upload is in Tr ; lines on servers going up and down are in the same log ; captured headers have no names
-- notes: logged_at_headers = rows written at the response headers (option logasap), so their length is unknown ; failed_in_queue_time = rows
--   with retries, whose failed attempts stand in Tw: no queue time, and one length at most
WITH x AS (
    SELECT line, record, text,
           regexp_extract(text, '(\S+):(\d+) \[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d\.\d{3})\] (\S+) ([^ /]+)/(\S+) (-?\d+)/(-?\d+)/(-?\d+)/(-?\d+)/(\+?-?\d+) (-?\d+) (\+?\d+) \S+ \S+ ([A-Za-z-]{2,4}) \d+/\d+/\d+/\d+/(\+?\d+) \d+/\d+ (?:\{(.*?)\} )?(?:\{(.*?)\} )?"(?:([A-Z]+) ([^" ]*))?',
               ['ip', 'port', 'time', 'front', 'back', 'server', 'h', 'w', 'c', 'r', 'a', 'status', 'bytes', 'term', 'retries', 'asked', 'told', 'verb', 'path']) AS c
    FROM raw
), t AS (
    SELECT line, record, text,
           naive_ns(epoch_us(try_strptime(c.time, '%d/%b/%Y:%H:%M:%S.%g')) * 1000, CAST(getvariable('hedgectl_tz') AS VARCHAR)) AS start_ns,
           c.time <> '' AS naive,
           to_count(c.h) * 1000000 AS request_ns, to_count(c.w) * 1000000 AS wait_ns, to_count(c.c) * 1000000 AS connect_ns,
           to_count(c.r) * 1000000 AS answer_ns, to_count(c.a) * 1000000 AS total_ns, starts_with(c.a, '+') AS asap,
           TRY_CAST(c.status AS INTEGER) AS code, c.term AS term, to_count(c.retries) AS retries,
           nullif(c.server, '') AS server, nullif(c.back, '') AS backend, nullif(c.verb, '') AS verb, nullif(c.path, '') AS path,
           nullif(regexp_extract(c.asked, '(?:^|\|)([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{16,64})(?:\||$)', 1), '') AS request_id,
           CASE WHEN contains(c.asked || '|' || c.told, 'text/event-stream') THEN true
                WHEN contains(c.asked || '|' || c.told, '/json') AND TRY_CAST(c.status AS INTEGER) BETWEEN 200 AND 299 THEN false END AS streamed,
           to_count(c.bytes) AS got_bytes, NULL AS turn_id, NULL AS model, NULL AS sent_bytes, NULL AS completion_tokens
    FROM x
)
FROM haproxy_rows('t')
