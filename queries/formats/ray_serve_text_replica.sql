-- format: ray_serve_text_replica
-- title: Ray Serve replica log, text
-- spec: ray/serve/_private/logging_utils.py and replica.py
-- source: the default encoding of Ray Serve's logs; the files replica_*.log
-- input: text
-- detect: /^(\([^)]*\) )?[A-Z]+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+ (?!proxy |controller )\S+ [0-9a-z]{8} (\S+ )?(.* )?-- /
-- clock: wall clock of the replica's host at the end of the answer, local time; durations are of 0.1 ms
-- resolution: 1ms
-- observer: engine
-- observes: request_id, replica, pool, route, observer, arrival_ns, e2e_ns, resolution_ns, status, http_status, error_kind
-- hint: the wait for a replica is before this: read the proxy's log too (ray_serve_text), with --join. TTFT and tokens are in no Ray log: add the
--   engines' spans
-- traps: times are local: --tz ; both "CALL method OK" and "POST /path 200" are written ; a stream whose client left may be logged 200 here and has no sign
--   of it: the proxy's log has ; a request whose client left may have no line at all ; refusals at capacity are not requests ; messages hold newlines and
--   ANSI colours ; the time is the end
WITH m AS (
    SELECT line, record, p, ray_access(p.message) AS x FROM (SELECT line, record, ray_line(ray_plain(text)) AS p FROM raw)
), k AS (
    SELECT line, record, to_text(p.id) AS id, p.component AS component, p.component_id AS replica, x.path AS path, x.ms <> '' AND p.component NOT IN ('proxy', 'controller') AS timed,
           x.ms <> '' AS access, ms_ns(x.ms) AS e2e, TRY_CAST(x.said AS INTEGER) AS code, x.said AS said, time_ns(p.at) AS end_ns,
           CASE WHEN TRY_CAST(x.said AS INTEGER) IS NOT NULL THEN http_class(TRY_CAST(x.said AS INTEGER)) ELSE word_class(x.said) END AS class
    FROM m
), d AS (
    SELECT *, CASE WHEN timed AND path NOT LIKE '/-/%' THEN ray_fault(end_ns, e2e, class) END AS bad FROM k
)
SELECT line, record, CASE WHEN NOT timed OR path LIKE '/-/%' THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN access AND NOT timed THEN 'other_component' WHEN NOT timed THEN 'log_line' WHEN path LIKE '/-/%' THEN 'health_check' ELSE bad END AS reason,
       CASE WHEN timed THEN 'naive_time' END AS note,
       id AS request_id, replica, component AS pool, CASE WHEN path[1] = '/' THEN path END AS route, 'engine' AS observer, TRY(end_ns - e2e) AS arrival_ns, e2e AS e2e_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns, class AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN class = 'ok' THEN NULL WHEN code IS NOT NULL THEN http_kind(code) ELSE word_kind(said) END AS error_kind
FROM d
