-- format: traefik_json
-- title: Traefik access log, JSON
-- spec: https://doc.traefik.io/traefik/observability/access-logs/
-- source: accesslog: true, accesslog.format: json, accesslog.fields.headers.names.X-Request-Id: keep; no accesslog.filters
-- input: json
-- detect: Duration, DownstreamStatus, StartUTC|StartLocal
-- clock: wall clock of the proxy at the start of the request, UTC
-- resolution: 1us
-- observer: edge
-- observes: request_id, attempt_no, cause, turn_id, replica, pool, route, observer, arrival_ns, e2e_ns, resolution_ns, request_bytes, response_bytes, status,
--   http_status, error_kind, won, weight
-- one_row: request
-- hint: there is no time to the headers and none to the first token in this log; add OTLP tracing or the engines' own spans
-- traps: durations are nanoseconds ; OriginDuration is the last attempt's, so Overhead holds the failed attempts ; filters (minDuration,
--   statusCodes, retryAttempts) leave a biased sample: unset them ; OriginStatus is absent when Traefik answered itself ; `time` is
--   the time of the row, StartUTC the start
WITH x AS (
    SELECT line, record, from_json(j, '{
        "StartUTC": "VARCHAR", "StartLocal": "VARCHAR", "Duration": "VARCHAR", "OriginDuration": "VARCHAR", "DownstreamStatus": "VARCHAR", "OriginStatus": "VARCHAR",
        "RetryAttempts": "VARCHAR", "RequestMethod": "VARCHAR", "RequestPath": "VARCHAR", "RouterName": "VARCHAR", "ServiceName": "VARCHAR", "ServiceAddr": "VARCHAR",
        "RequestContentSize": "VARCHAR", "DownstreamContentSize": "VARCHAR", "request_X-Request-Id": "VARCHAR", "trace_id": "VARCHAR", "TraceId": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, coalesce(time_ns(present(v.StartUTC)), time_ns(present(v.StartLocal))) AS start_ns, ns_ns(v.Duration) AS total_ns,
           ns_ns(v.OriginDuration) AS own_ns, TRY_CAST(v.DownstreamStatus AS INTEGER) AS code, coalesce(to_count(v.RetryAttempts), 0) AS retries,
           http_class(TRY_CAST(v.DownstreamStatus AS INTEGER)) AS state,
           CASE WHEN v.Duration IS NULL AND v.StartUTC IS NULL AND v.StartLocal IS NULL THEN 'no_request_field'
                WHEN v.RequestMethod NOT IN ('POST', 'PUT') THEN 'not_a_generation' END AS other
    FROM x
), e AS (
    SELECT *, unnest(CASE WHEN retries BETWEEN 1 AND 16 THEN range(0, retries + 1) ELSE [0] END) AS k FROM t
), a AS (
    SELECT *, retries BETWEEN 1 AND 16 AS again, k = CASE WHEN retries BETWEEN 1 AND 16 THEN retries ELSE 0 END AS last,
           -- what went before the last attempt: the failed ones and the proxy's own time
           CASE WHEN own_ns BETWEEN 0 AND total_ns THEN total_ns - own_ns END AS lag_ns
    FROM e
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
       to_text(v."request_X-Request-Id") AS request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       coalesce(to_text(v.trace_id), to_text(v.TraceId)) AS turn_id,
       CASE WHEN last THEN to_text(v.ServiceAddr) END AS replica,
       to_text(v.ServiceName) AS pool,
       coalesce(to_text(v.RouterName), to_text(v.RequestPath)) AS route,
       'edge' AS observer,
       CASE WHEN again AND last THEN TRY(start_ns + coalesce(lag_ns, 0)) ELSE start_ns END AS arrival_ns,
       CASE WHEN NOT again THEN CASE WHEN total_ns > 0 OR state = 'ok' THEN total_ns END
            WHEN last THEN CASE WHEN lag_ns IS NOT NULL THEN own_ns END
            WHEN retries = 1 AND lag_ns > 0 THEN lag_ns END AS e2e_ns,
       CAST(1000 AS BIGINT) AS resolution_ns,
       to_count(v.RequestContentSize) AS request_bytes,
       CASE WHEN last THEN to_count(v.DownstreamContentSize) END AS response_bytes,
       CASE WHEN last THEN state ELSE 'error' END AS status,
       CASE WHEN last THEN code END AS http_status,
       CASE WHEN NOT last THEN 'upstream' WHEN state <> 'ok' THEN http_kind(code) END AS error_kind,
       CASE WHEN again THEN last AND state = 'ok' END AS won,
       CAST(1 AS DOUBLE) AS weight
FROM a
