-- format: k6_json
-- title: k6, --out json
-- spec: grafana/k6 internal/output/json and metrics/builtin.go
-- source: k6 run --out json=points.json script.js
-- input: json
-- detect: type, metric, data, type~^(Point|Metric)$
-- clock: client wall clock at the end of the answer
-- resolution: 1us
-- observer: client
-- observes: observer, route, arrival_ns, e2e_ns, headers_ns, resolution_ns, status, http_status, error_kind
-- hint: http_req_waiting is the time to the headers, not to the first token; use a tool that reads the stream for TTFT. Give each engine's name as a tag
--   of its own if the script knows it
-- traps: a request is nine points without a common id: its duration is the request, the waiting point of the same time and tags is its time to the headers ;
--   the time is the end ; the duration leaves out the wait for a connection ; status 0 never had an answer: error_code 1050 is the client's timeout, then
--   its time is a lower bound ; users of a ramping or constant-vus scenario wait for the answer before they send again
WITH f AS MATERIALIZED (
    SELECT line, record, j->>'$.metric' AS metric, j->>'$.data.time' AS said_end, j->>'$.data.tags' AS tags_text, j->'$.data.tags' AS tags, ms_ns(j->>'$.data.value') AS value_ns
    FROM raw WHERE j->>'$.type' = 'Point' AND j->>'$.metric' IN ('http_req_duration', 'http_req_waiting')
), waiting AS (
    -- two requests that end in the same nanosecond with the same tags cannot be told apart
    SELECT said_end, tags_text, any_value(value_ns) AS headers FROM f WHERE metric = 'http_req_waiting' GROUP BY ALL HAVING count(*) = 1
), k AS MATERIALIZED (
    SELECT line, record, time_ns(f.said_end) AS end_ns, value_ns AS e2e, headers, to_text(coalesce(tags->>'$.url', tags->>'$.name')) AS url, TRY_CAST(tags->>'$.status' AS INTEGER) AS code, tags->>'$.error_code' AS error_code
    FROM f LEFT JOIN waiting w ON w.said_end = f.said_end AND w.tags_text = f.tags_text WHERE metric = 'http_req_duration'
), d AS (
    SELECT *, CASE WHEN e2e IS NULL THEN 'no_duration' ELSE span_fault(TRY(end_ns - e2e), end_ns) END AS bad,
           CASE WHEN code BETWEEN 100 AND 599 THEN http_class(code) WHEN error_code = '1050' THEN 'censored' ELSE 'error' END AS state
    FROM k
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason, 'client' AS observer,
       nullif(regexp_extract(url, '^(?:\w+://[^/]*)?(/[^?#]*)', 1), '') AS route, TRY(end_ns - e2e) AS arrival_ns,
       CASE WHEN state <> 'error' THEN e2e END AS e2e_ns, CASE WHEN headers BETWEEN 0 AND e2e AND code > 0 THEN headers END AS headers_ns, CAST(1000 AS BIGINT) AS resolution_ns,
       state AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN code BETWEEN 100 AND 599 THEN http_kind(code) WHEN state = 'censored' THEN 'timeout' ELSE 'upstream' END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, CASE WHEN j->>'$.type' = 'Metric' THEN 'definition' ELSE 'other_metric' END AS reason
FROM raw WHERE NOT EXISTS (FROM d WHERE d.line = raw.line AND d.record = raw.record)
