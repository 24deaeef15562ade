-- format: ray_serve
-- title: Ray Serve proxy log, JSON
-- spec: ray/serve/_private/logging_utils.py and proxy.py
-- source: serve with LoggingConfig(encoding="JSON") or RAY_SERVE_LOG_ENCODING=JSON; the files proxy_*.log
-- input: json
-- detect: component_name=proxy, message, levelname
-- clock: wall clock of the proxy at the end of the answer; durations are of 0.1 ms
-- resolution: 100us
-- observer: gateway
-- observes: request_id, replica, pool, route, observer, arrival_ns, e2e_ns, resolution_ns, status, http_status, error_kind
-- hint: the proxy does not name the replica: read the files replica_*.log beside it (ray_serve_replica), with --join. TTFT and tokens are in no Ray log: add
--   the engines' spans
-- traps: the latency stands inside message ; a stream whose client left is logged 200, told by a line "Client for request ... disconnected" of the same
--   request ; 499 only if no byte was sent ; messages hold newlines and ANSI colours ; replica lines of the same request are in other files, or in the
--   same one: they are no second request ; the time is the end
-- notes: hung_up_200 = streams logged 200 whose client had left
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
    FROM m WHERE component = 'proxy' AND x.ms <> ''
), k AS (
    SELECT *, id IS NOT NULL AND EXISTS (FROM m h WHERE h.hung_up AND h.id = a.id) AS hung_up, CASE WHEN code IS NOT NULL THEN http_class(code) ELSE word_class(said) END AS class,
           CASE WHEN path LIKE '/-/%' THEN 'health_check' END AS other
    FROM a
), d AS (
    SELECT *, ray_fault(end_ns, e2e, class) AS bad FROM k
)
SELECT line, record, CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, coalesce(other, bad) AS reason,
       nullif(concat_ws(',', CASE WHEN naive THEN 'naive_time' END, CASE WHEN hung_up AND class = 'ok' THEN 'hung_up_200' END), '') AS note,
       id AS request_id, (SELECT min(o.replica) FROM m o WHERE o.component = 'replica' AND o.x.ms <> '' AND o.id = d.id) AS replica, coalesce(to_text(application), (SELECT min(o.application) FROM m o WHERE o.component = 'replica' AND o.x.ms <> '' AND o.id = d.id)) AS pool, to_text(coalesce(nullif(route, ''), path)) AS route, 'gateway' AS observer,
       TRY(end_ns - e2e) AS arrival_ns, e2e AS e2e_ns, CAST(100000 AS BIGINT) AS resolution_ns,
       CASE WHEN hung_up AND class = 'ok' THEN 'censored' ELSE class END AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN class = 'ok' AND NOT hung_up THEN NULL WHEN hung_up THEN 'client_gone' WHEN code IS NOT NULL THEN http_kind(code) ELSE word_kind(said) END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, CASE WHEN hung_up THEN 'client_gone' WHEN x.ms <> '' THEN 'other_component' ELSE 'log_line' END AS reason
FROM m WHERE NOT (coalesce(component = 'proxy', false) AND x.ms <> '')
