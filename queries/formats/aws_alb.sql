-- format: aws_alb
-- title: AWS Application Load Balancer access log
-- spec: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
-- source: load balancer attribute access_logs.s3.enabled=true; aws s3 sync
-- input: text
-- detect: /(https?|h2|grpcs|wss?) \d{4}-\d\d-\d\dT[\d:.]+Z \S+ \S+:\d+ \S+ (-1|[\d.]+) (-1|[\d.]+) (-1|[\d.]+) (-|\d{3}) /
-- clock: wall clock of the load balancer; request_creation_time is the start, UTC
-- resolution: 1ms
-- observer: edge
-- observes: turn_id, replica, pool, route, observer, arrival_ns, e2e_ns, headers_ns, resolution_ns, request_bytes, response_bytes, status, http_status, error_kind, weight
-- one_row: request
-- hint: no field covers the body of an answer, so a good answer has no length and no first token; read the gateway's or the engine's log for these
-- traps: target_processing_time ends at the response headers and response_processing_time when sending begins ; -1 is a target that was not
--   reached or did not answer ; files are delivered on a best-effort basis: rows may be missing ; 460 is a client that left, 504 the idle
--   timeout ; the trace id is the caller's if it sends one, so it names a turn and not a request
-- notes: no_body_time = good answers whose length no field tells
WITH x AS (
    SELECT line, record,
           regexp_extract(text, '(?:^|\s)(https?|h2|grpcs|wss?) (\d{4}-\d\d-\d\dT[0-9:.]+Z) (\S+) (\S+) (\S+) (-1|[\d.]+) (-1|[\d.]+) (-1|[\d.]+) (-|\d{3}) (-|\d{3}) (\d+) (\d+) "([A-Z-]+) (\S+) [^"]*" "(?:[^"\\]|\\.)*" \S+ \S+ (\S+) "([^"]*)" "[^"]*" "[^"]*" \S+ (\d{4}-\d\d-\d\dT[0-9:.]+Z)',
               ['type', 'time', 'elb', 'client', 'target', 'asked', 'answered', 'told', 'code', 'target_code', 'got', 'sent', 'verb', 'url', 'group', 'trace', 'created']) AS c
    FROM raw
), t AS (
    SELECT line, record, c, iso_ns(present(c.created)) AS start_ns, TRY_CAST(c.code AS INTEGER) AS code, http_class(TRY_CAST(c.code AS INTEGER)) AS state,
           CASE WHEN TRY_CAST(c.answered AS DOUBLE) >= 0 THEN s_ns(c.answered) + CASE WHEN TRY_CAST(c.asked AS DOUBLE) >= 0 THEN s_ns(c.asked) ELSE 0 END END AS head_ns,
           TRY(iso_ns(present(c.time)) - iso_ns(present(c.created))) AS total_ns,
           CASE WHEN c.type = '' THEN 'unrecognised_line' WHEN c.verb NOT IN ('POST', 'PUT') THEN 'not_a_generation' END AS other
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
       nullif(concat_ws(',', CASE WHEN state = 'ok' THEN 'no_body_time' END), '') AS note,
       nullif(regexp_extract(c.trace, 'Root=([^;]+)', 1), '') AS turn_id,
       present(c.target) AS replica,
       nullif(regexp_extract(c."group", 'targetgroup/([^/]+)', 1), '') AS pool,
       nullif(regexp_extract(c.url, '^[a-z]+://[^/]+(/[^?]*)', 1), '') AS route,
       'edge' AS observer,
       start_ns AS arrival_ns,
       CASE WHEN state <> 'ok' AND total_ns > 0 THEN total_ns END AS e2e_ns,
       head_ns AS headers_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(c.got) AS request_bytes,
       to_count(c.sent) AS response_bytes,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CAST(1 AS DOUBLE) AS weight
FROM t
