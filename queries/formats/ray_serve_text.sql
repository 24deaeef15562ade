-- format: ray_serve_text
-- title: Ray Serve proxy log, text
-- spec: ray/serve/_private/logging_utils.py and proxy.py
-- source: the default encoding of Ray Serve's logs; the files proxy_*.log, or what serve run prints
-- input: text
-- detect: /^(\([^)]*\) )?[A-Z]+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+ proxy \S+ (\S+ )?(.* )?-- /
-- clock: wall clock of the proxy at the end of the answer, local time; durations are of 0.1 ms
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, replica, pool, route, observer, arrival_ns, e2e_ns, resolution_ns, status, http_status, error_kind
-- hint: the proxy does not name the replica: read the files replica_*.log beside it (ray_serve_text_replica), with --join. The JSON encoding
--   (RAY_SERVE_LOG_ENCODING=JSON) has nanoseconds and names the application. TTFT and tokens are in no Ray log: add the engines' spans
-- traps: times are local: --tz ; a stream whose client left is logged 200, told by a line "Client for request ... disconnected" of the same request ; 499
--   only if no byte was sent ; messages hold newlines and ANSI colours ; the time is the end ; lines of replicas of the same request are in other files, or,
--   on the console, in the same one: they are no second request ; the caller's address may stand before the method
-- notes: hung_up_200 = streams logged 200 whose client had left
WITH f AS MATERIALIZED (
    SELECT line, record, ray_line(ray_plain(text)) AS p FROM raw
), m AS MATERIALIZED (
    SELECT line, record, p, ray_access(p.message) AS x, regexp_extract(p.message, '^Client for request (\S+) disconnected', 1) AS gone FROM f
), o AS (
    SELECT p.id AS id, min(p.component_id) AS replica, min(p.component) AS pool FROM m WHERE p.component NOT IN ('', 'proxy') AND x.ms <> '' GROUP BY p.id
), a AS (
    SELECT line, record, to_text(p.id) AS id, x.path AS path, ms_ns(x.ms) AS e2e, TRY_CAST(x.said AS INTEGER) AS code, x.said AS said, time_ns(p.at) AS end_ns
    FROM m WHERE p.component = 'proxy' AND x.ms <> ''
), k AS (
    SELECT *, EXISTS (FROM m h WHERE h.gone = a.id) AS hung_up, CASE WHEN code IS NOT NULL THEN http_class(code) ELSE word_class(said) END AS class FROM a
), d AS (
    SELECT k.*, o.replica, o.pool, ray_fault(end_ns, e2e, class) AS bad FROM k LEFT JOIN o ON o.id = k.id
)
SELECT line, record, CASE WHEN path LIKE '/-/%' THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN path LIKE '/-/%' THEN 'health_check' ELSE bad END AS reason, nullif(concat_ws(',', 'naive_time', CASE WHEN hung_up AND class = 'ok' THEN 'hung_up_200' END), '') AS note,
       id AS request_id, replica, pool, path AS route, 'gateway' AS observer, TRY(end_ns - e2e) AS arrival_ns, e2e AS e2e_ns, CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN hung_up AND class = 'ok' THEN 'censored' ELSE class END AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN class = 'ok' AND NOT hung_up THEN NULL WHEN hung_up THEN 'client_gone' WHEN code IS NOT NULL THEN http_kind(code) ELSE word_kind(said) END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, CASE WHEN gone <> '' THEN 'client_gone' WHEN x.ms <> '' THEN 'other_component' ELSE 'log_line' END AS reason
FROM m WHERE NOT (p.component = 'proxy' AND x.ms <> '')
