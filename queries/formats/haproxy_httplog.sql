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
           to_count(c.bytes) AS got_bytes
    FROM x
), s AS (
    SELECT *, coalesce(request_ns, 0) + coalesce(wait_ns, 0) AS to_send_ns,
           coalesce(request_ns, 0) + coalesce(wait_ns, 0) + coalesce(connect_ns, 0) AS to_connect_ns,
           coalesce(request_ns, 0) + coalesce(wait_ns, 0) + coalesce(connect_ns, 0) + answer_ns AS to_headers_ns,
           coalesce(retries, 0) BETWEEN 1 AND 16 AS again,
           CASE WHEN term[1] IN ('C', 'c', 's') OR code < 0 THEN 'censored'
                -- an answer that began and was cut by the server or by the proxy
                WHEN code BETWEEN 200 AND 399 AND term[1] IN ('S', 'P', 'R', 'I', 'K', 'D', 'U') AND term[2] IN ('D', 'H', 'L') THEN 'error'
                ELSE http_class(code) END AS state
    FROM t
), e AS (
    SELECT *, unnest(CASE WHEN again THEN range(0, retries + 1) ELSE [0] END) AS k FROM s
), a AS (
    SELECT *, k = CASE WHEN again THEN retries ELSE 0 END AS last,
           -- failed attempts stand in Tw, failed connects in Tc in some versions; where those between began is not known
           CASE WHEN again AND k = retries THEN to_connect_ns ELSE 0 END AS lag_ns
    FROM e
), b AS (
    SELECT *, CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns > lag_ns AND (asap OR to_headers_ns <= total_ns) THEN to_headers_ns - lag_ns END AS first_ns
    FROM a
)
SELECT line, record,
       CASE WHEN start_ns IS NULL AND code IS NULL OR verb IS NULL OR verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN start_ns IS NULL OR state IS NULL OR total_ns IS NULL OR total_ns > 86400000000000 THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL AND code IS NULL THEN
                CASE WHEN regexp_matches(text, '(Server|Proxy|Backup Server) \S+ (is|has|started|stopped)|backend \S+ has no server') THEN 'server_state' ELSE 'unrecognised_line' END
            WHEN verb IS NULL OR verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN state IS NULL THEN 'unknown_status'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range' END AS reason,
       nullif(concat_ws(',', CASE WHEN naive THEN 'naive_time' END, CASE WHEN asap AND last THEN 'logged_at_headers' END,
                        CASE WHEN again AND last THEN 'failed_in_queue_time' END,
                        CASE WHEN last AND streamed AND state <> 'error' AND NOT asap THEN ttft_fault(to_headers_ns - lag_ns, total_ns - lag_ns) END), '') AS note,
       request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       CASE WHEN last THEN nullif(server, '<NOSRV>') END AS replica,
       backend AS pool,
       split_part(path, '?', 1) AS route,
       'edge' AS observer,
       TRY(start_ns + least(lag_ns, total_ns)) AS arrival_ns,
       CASE WHEN last THEN CASE WHEN NOT asap AND total_ns >= lag_ns AND (total_ns > lag_ns OR state <> 'error') THEN total_ns - lag_ns END
            -- one failed attempt: what it waited and took; of several the parts are not known
            WHEN retries = 1 AND to_connect_ns BETWEEN 1 AND total_ns THEN to_connect_ns END AS e2e_ns,
       first_ns AS ttft_ns,
       CASE WHEN first_ns IS NOT NULL THEN 'first_byte' END AS ttft_basis,
       CASE WHEN last AND to_headers_ns BETWEEN lag_ns AND total_ns + 1000000 THEN to_headers_ns - lag_ns END AS headers_ns,
       CASE WHEN NOT again THEN wait_ns END AS queue_ns,
       CASE WHEN NOT again AND wait_ns IS NOT NULL THEN 'measured' END AS queue_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN last AND NOT asap THEN got_bytes END AS response_bytes,
       CASE WHEN last THEN state ELSE 'error' END AS status,
       -- the status of a caller that left before the headers is made up
       CASE WHEN last AND code > 0 AND NOT (term[1] IN ('C', 'c') AND answer_ns IS NULL) THEN code END AS http_status,
       CASE WHEN NOT last THEN 'upstream'
            WHEN state = 'ok' THEN NULL
            WHEN term[1] IN ('C', 'c') OR code < 0 THEN 'client_gone'
            WHEN term[1] = 's' THEN 'timeout'
            WHEN code BETWEEN 200 AND 399 THEN 'upstream'
            ELSE http_kind(code) END AS error_kind,
       CASE WHEN again THEN last AND state = 'ok' END AS won,
       streamed,
       -- what became of the persistence cookie; - where the configuration has none
       CASE WHEN term[3] = 'V' THEN true WHEN term[3] IN ('N', 'I', 'D', 'E', 'O', 'U') THEN false END AS sticky_session,
       CAST(1 AS DOUBLE) AS weight
FROM b
