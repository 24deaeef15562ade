-- format: vegeta_json
-- title: vegeta, encode --to json
-- spec: tsenart/vegeta lib/results.go
-- source: vegeta attack ... | vegeta encode --to json
-- input: json
-- detect: attack, seq, code, latency, bytes_out, bytes_in
-- clock: client wall clock, nanoseconds
-- resolution: 1ns
-- observer: client
-- observes: attempt_id, route, observer, arrival_ns, e2e_ns, resolution_ns, request_bytes, response_bytes, status, http_status, error_kind
-- hint: vegeta reads the answer as a whole: use a tool that reads the stream for TTFT
-- traps: latency is in nanoseconds ; code 0 is a request that never had an answer: the error says whether it was the client's timeout, then its time is a
--   lower bound ; rows stand in order of their end ; seq counts from 0 in each attack
WITH f AS (
    SELECT line, record, time_ns(j->>'$.timestamp') AS start_ns, ns_ns(j->>'$.latency') AS e2e, TRY_CAST(j->>'$.code' AS INTEGER) AS code, present(j->>'$.error') AS error,
           concat_ws('-', present(j->>'$.attack'), j->>'$.seq') AS id, to_text(j->>'$.url') AS url, to_count(j->>'$.bytes_out') AS sent, to_count(j->>'$.bytes_in') AS got
    FROM raw
), k AS (
    SELECT *, CASE WHEN e2e IS NULL THEN 'no_duration' ELSE span_fault(start_ns, TRY(start_ns + e2e)) END AS bad,
           CASE WHEN code BETWEEN 100 AND 599 THEN http_class(code) WHEN regexp_matches(error, '(?i)time.?out|deadline') THEN 'censored' ELSE 'error' END AS state
    FROM f
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason, id AS attempt_id,
       regexp_extract(url, '^\w+://[^/]*(/[^?#]*)', 1) AS route, 'client' AS observer, start_ns AS arrival_ns,
       CASE WHEN state <> 'error' THEN e2e END AS e2e_ns, CAST(1 AS BIGINT) AS resolution_ns, sent AS request_bytes, got AS response_bytes,
       state AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN code BETWEEN 100 AND 599 THEN http_kind(code) WHEN state = 'censored' THEN 'timeout' ELSE 'upstream' END AS error_kind
FROM k
