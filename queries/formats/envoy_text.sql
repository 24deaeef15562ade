-- format: envoy_text
-- title: Envoy and Istio access log, text
-- spec: https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#default-format-string
-- source: access_log without log_format (Envoy), meshConfig.accessLogFile: /dev/stdout (Istio)
-- input: text
-- detect: /\[\d{4}-\d\d-\d\dT[\d:.]+Z\] "\S+ \S+ [^"]+" \d{1,3} \S+ (\S+ \S+ "[^"]*" )?\d+ \d+ \d+ (\d+|-) "/
-- clock: wall clock of the proxy at the start of the request, UTC
-- resolution: 1ms
-- observer: edge
-- observes: request_id, replica, pool, route, observer, arrival_ns, e2e_ns, headers_ns, resolution_ns, request_bytes, response_bytes, status, http_status,
--   error_kind, weight
-- one_row: request
-- hint: the text line has no first token, no attempt count and no content type; use a JSON log_format with COMMON_DURATION points, see
--   formats envoy_json
-- traps: the upstream service time stops at the headers and includes failed attempts, back-off and the hedge delay ; 200 with URX or UO is a good
--   answer, 200 with DC a client that left, 200 with UT a stream that was cut ; code 0 has no answer ; nothing tells how many attempts
--   there were: the host is the last one's ; Istio puts three fields more before the byte counts
WITH x AS (
    SELECT line, record,
           regexp_extract(text, '\[(\d{4}-\d\d-\d\dT[0-9:.]+Z)\] "([A-Z-]+) (\S+) [^"]*" (\d+) (\S+) (?:(\S+) \S+ "[^"]*" )?(\d+) (\d+) (\d+) (\d+|-) "[^"]*" "(?:[^"\\]|\\.)*" "([^"]*)" "[^"]*" "([^"]*)"(?: (\S+) \S+ \S+ \S+ \S+ (\S+))?',
               ['time', 'verb', 'path', 'code', 'flags', 'details', 'got', 'sent', 'total', 'service', 'id', 'host', 'cluster', 'route']) AS c
    FROM raw
), t AS (
    SELECT line, record, c, iso_ns(c.time) AS start_ns, TRY_CAST(c.code AS INTEGER) AS code, string_split(c.flags, ',') AS flags, ms_ns(c.total) AS total_ns,
           ms_ns(present(c.service)) AS service_ns, present(c.verb) AS verb
    FROM x
), s AS (
    SELECT *,
           CASE WHEN list_has_any(flags, ['DC']) OR code = 0 THEN 'censored'
                -- an answer that began and was cut: by a timer (longer than seen) or by the connection (broken)
                WHEN code BETWEEN 200 AND 399 AND list_has_any(flags, ['UT', 'SI', 'UMSDR', 'DT']) THEN 'censored'
                WHEN code BETWEEN 200 AND 399 AND list_has_any(flags, ['UC', 'UR', 'LR', 'UPE', 'OM']) THEN 'error'
                ELSE http_class(code) END AS state
    FROM t
)
SELECT line, record,
       CASE WHEN start_ns IS NULL AND code IS NULL OR verb IS NULL OR verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL AND code IS NULL THEN 'unrecognised_line'
            WHEN verb IS NULL OR verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       present(c.id) AS request_id,
       regexp_replace(present(c.host), '^tcp://', '') AS replica,
       present(c.cluster) AS pool,
       coalesce(present(c.route), split_part(present(c.path), '?', 1)) AS route,
       'edge' AS observer,
       start_ns AS arrival_ns,
       -- a failure of no length says nothing about time
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CASE WHEN service_ns <= total_ns + 1000000 THEN service_ns END AS headers_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(c.got) AS request_bytes,
       to_count(c.sent) AS response_bytes,
       state AS status,
       nullif(code, 0) AS http_status,
       CASE WHEN state = 'ok' THEN NULL
            WHEN list_has_any(flags, ['DC']) OR code = 0 THEN 'client_gone'
            WHEN list_has_any(flags, ['UT', 'SI', 'UMSDR', 'DT']) THEN 'timeout'
            WHEN list_has_any(flags, ['RL', 'RLSE']) THEN 'rate_limited'
            WHEN code BETWEEN 200 AND 399 THEN 'upstream'
            ELSE http_kind(code) END AS error_kind,
       CAST(1 AS DOUBLE) AS weight
FROM s
