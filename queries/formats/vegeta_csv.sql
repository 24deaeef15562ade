-- format: vegeta_csv
-- title: vegeta, encode --to csv
-- spec: tsenart/vegeta lib/results.go
-- source: vegeta attack ... | vegeta encode --to csv
-- input: text
-- detect: /^\d{18,19},\d{1,3},\d+,\d+,\d+,("|[^,]*,)/
-- clock: client wall clock, nanoseconds
-- resolution: 1ns
-- observer: client
-- observes: attempt_id, route, observer, arrival_ns, e2e_ns, resolution_ns, request_bytes, response_bytes, status, http_status, error_kind
-- hint: vegeta reads the answer as a whole: use a tool that reads the stream for TTFT
-- traps: there is no header: time, code, latency in nanoseconds, bytes out and in, error, body, attack, sequence, method, url, headers ; code 0 is a
--   request that never had an answer: the error says whether it was the client's timeout, then its time is a lower bound
WITH f AS (
    SELECT line, record, text, regexp_extract(text, '^(\d{18,19}),(\d{1,3}),(\d+),(\d+),(\d+),("(?:[^"]|"")*"|[^",]*),[^,]*,("(?:[^"]|"")*"|[^",]*),(\d+),([A-Z]+),("(?:[^"]|"")*"|[^",]*)(?:,|$)',
           ['at', 'code', 'latency', 'sent', 'got', 'error', 'attack', 'seq', 'method', 'url']) AS x
    FROM raw
), k AS (
    SELECT line, record, x, ns_ns(x.at) AS start_ns, ns_ns(x.latency) AS e2e, TRY_CAST(x.code AS INTEGER) AS code, trim(x.url, '"') AS url,
           CASE WHEN TRY_CAST(x.code AS INTEGER) BETWEEN 100 AND 599 THEN http_class(TRY_CAST(x.code AS INTEGER)) WHEN regexp_matches(x.error, '(?i)time.?out|deadline') THEN 'censored' ELSE 'error' END AS state
    FROM f
), d AS (
    SELECT *, CASE WHEN x.at = '' THEN NULL ELSE span_fault(start_ns, TRY(start_ns + e2e)) END AS bad FROM k
)
SELECT line, record, CASE WHEN x.at = '' THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN x.at = '' THEN 'other_line' ELSE bad END AS reason, concat_ws('-', nullif(trim(x.attack, '"'), ''), x.seq) AS attempt_id,
       regexp_extract(url, '^\w+://[^/]*(/[^?#]*)', 1) AS route, 'client' AS observer, start_ns AS arrival_ns,
       CASE WHEN state <> 'error' THEN e2e END AS e2e_ns, CAST(1 AS BIGINT) AS resolution_ns, to_count(x.sent) AS request_bytes, to_count(x.got) AS response_bytes,
       state AS status, CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN code BETWEEN 100 AND 599 THEN http_kind(code) WHEN state = 'censored' THEN 'timeout' ELSE 'upstream' END AS error_kind
FROM d
