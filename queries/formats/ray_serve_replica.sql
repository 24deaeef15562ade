-- format: ray_serve_replica
-- title: Ray Serve replica log, JSON
-- spec: ray/serve/_private/logging_utils.py and replica.py
-- source: serve with LoggingConfig(encoding="JSON") or RAY_SERVE_LOG_ENCODING=JSON; the files replica_*.log
-- input: json
-- detect: component_name=replica, message, levelname
-- clock: wall clock of the replica's host at the end of the answer; durations are of 0.1 ms
-- resolution: 100us
-- observer: engine
-- observes: request_id, replica, pool, route, observer, arrival_ns, e2e_ns, resolution_ns, status, http_status, error_kind
-- hint: the wait for a replica is before this: read the proxy's log too (ray_serve), with --join
-- traps: the latency stands inside message ; both "CALL method OK" and "POST /path 200" are written ; a stream whose client left may be logged 200 here and has no
--   sign of it: the proxy's log has ; a request whose client left may have no line at all ; refusals at capacity are not requests
WITH f AS MATERIALIZED (
    SELECT line, record, j->>'$.component_name' AS component, to_text(j->>'$.request_id') AS id, j->>'$.route' AS route, j->>'$.application' AS application,
           j->>'$.deployment' AS deployment, to_text(j->>'$.replica') AS replica, ns_ns(j->>'$.timestamp_ns') AS stamp_ns, j->>'$.asctime' AS asctime,
           ray_plain(j->>'$.message') AS message
    FROM raw
), m AS MATERIALIZED (
    SELECT * EXCLUDE (message), ray_access(message) AS x,
           regexp_matches(message, '^Client for request .* disconnected') AS hung_up
    FROM f
), a AS (
    SELECT line, record, id, route, application, deployment, replica, x.path AS path, x.said AS said, ms_ns(x.ms) AS e2e, TRY_CAST(x.said AS INTEGER) AS code,
           coalesce(CASE WHEN stamp_ns > 0 THEN stamp_ns END, time_ns(asctime)) AS end_ns, stamp_ns IS NULL AND is_naive(asctime) AS naive
    FROM m WHERE component = 'replica' AND x.ms <> ''
), k AS (
    SELECT *, false AS hung_up, CASE WHEN code IS NOT NULL THEN http_class(code) ELSE word_class(said) END AS class,
           CASE WHEN path LIKE '/-/%' THEN 'health_check' END AS other
    FROM a
), d AS (
    SELECT *, ray_fault(end_ns, e2e, class) AS bad FROM k
)
SELECT line, record, CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, coalesce(other, bad) AS reason,
       CASE WHEN naive THEN 'naive_time' END AS note,
       id AS request_id, replica AS replica, to_text(deployment) AS pool, to_text(coalesce(nullif(route, ''), path)) AS route, 'engine' AS observer,
       TRY(end_ns - e2e) AS arrival_ns, e2e AS e2e_ns, CAST(100000 AS BIGINT) AS resolution_ns,
       CASE WHEN hung_up AND class = 'ok' THEN 'censored' ELSE class END AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN class = 'ok' AND NOT hung_up THEN NULL WHEN hung_up THEN 'client_gone' WHEN code IS NOT NULL THEN http_kind(code) ELSE word_kind(said) END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, CASE WHEN hung_up THEN 'client_gone' WHEN x.ms <> '' THEN 'other_component' ELSE 'log_line' END AS reason
FROM m WHERE NOT (coalesce(component = 'replica', false) AND x.ms <> '')
