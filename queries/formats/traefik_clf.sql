-- format: traefik_clf
-- title: Traefik access log, common log format
-- spec: https://doc.traefik.io/traefik/observability/access-logs/
-- source: accesslog: true (format common is the default)
-- input: text
-- detect: /\[\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "[^"]*" \d{3} (\d+|-) "[^"]*" "[^"]*" \d+ "[^"]*" "[^"]*" \d+ms$/
-- clock: wall clock of the proxy at the start of the request, to 1 s
-- resolution: 1ms
-- observer: edge
-- observes: replica, route, observer, arrival_ns, e2e_ns, resolution_ns, response_bytes, status, http_status, error_kind, weight
-- one_row: request
-- hint: use accesslog.format: json (format traefik_json): times to 1 us and the number of retries
-- traps: retries leave no trace here, and the time holds them ; no request id ; a caller that left is 499 ; filters leave a biased sample
WITH x AS (
    SELECT line, record,
           regexp_extract(text, '\[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "([A-Z]+) ([^" ]*)[^"]*" (\d{3}) (\d+|-) "[^"]*" "(?:[^"\\]|\\.)*" \d+ "([^"]*)" "([^"]*)" (\d+)ms',
               ['time', 'verb', 'path', 'status', 'bytes', 'router', 'server', 'total']) AS c
    FROM raw
), t AS (
    SELECT line, record, c, clf_ns(c.time) AS start_ns, ms_ns(present(c.total)) AS total_ns, TRY_CAST(c.status AS INTEGER) AS code, http_class(TRY_CAST(c.status AS INTEGER)) AS state,
           CASE WHEN c.time = '' THEN 'unrecognised_line' WHEN c.verb NOT IN ('POST', 'PUT') THEN 'not_a_generation' END AS other
    FROM x
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
       nullif(regexp_replace(present(c.server), '^[a-z0-9]+://', ''), '') AS replica,
       coalesce(present(c.router), split_part(present(c.path), '?', 1)) AS route,
       'edge' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END AS e2e_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(c.bytes) AS response_bytes,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CAST(1 AS DOUBLE) AS weight
FROM t
