-- format: vllm_router
-- title: vLLM production-stack router log
-- spec: vllm-project/production-stack src/vllm_router/services/request_service/request.py
-- source: stdout of vllm-router, log level info
-- input: text
-- detect: /Routing request \S+ with session id .* to \S+ at \d+\.\d+, process time = /
-- clock: wall clock of the router, epoch seconds
-- resolution: 1us
-- observer: gateway
-- observes: request_id, turn_id, replica, observer, arrival_ns, ttft_ns, ttft_basis, resolution_ns, status
-- one_row: part
-- hint: the log says which engine got which request and when, and nothing of the end: add the engines' spans (vllm_otlp) and join
-- traps: no line tells that a request ended or how, so status ok means only "was sent" ; with prefill and decode apart one request has two Routing lines, and its
--   TTFT is told by a line of its own ; process time is the router's own ; lines hold ANSI colours ; session id None is none
WITH t AS (
    SELECT line, record, line >> 40 AS file, regexp_replace(text, '\x1b?\[[0-9;]*m', '', 'g') AS text FROM raw
), x AS (
    SELECT line, record, file, regexp_extract(text, 'Routing request (\S+) with session id (.*) to (\S+) at (\d+\.\d+), process time = ([0-9.]+)',
                          ['id', 'session', 'url', 'at_s', 'took_s']) AS r,
           regexp_extract(text, '(\S+) prefill time \(TTFT\): ([0-9.]+)', ['id', 'ttft_s']) AS p
    FROM t
), leg AS (
    SELECT line, record, file, r.id AS id, r.session AS session, r.url AS url, s_ns(r.at_s) AS at_ns, TRY(s_ns(r.at_s) - coalesce(s_ns(r.took_s), 0)) AS start_ns
    FROM x WHERE r.id <> ''
), first_token AS (
    SELECT file, p.id AS id, min(s_ns(p.ttft_s)) AS ttft FROM x WHERE p.id <> '' GROUP BY ALL
), whole AS (
    SELECT leg.*, f.ttft, (SELECT min(o.start_ns) FROM leg o WHERE o.file = leg.file AND o.id = leg.id) AS arrival,
           f.ttft IS NOT NULL AND EXISTS (FROM leg o WHERE o.file = leg.file AND o.id = leg.id AND o.line > leg.line) AS is_prefill
    FROM leg LEFT JOIN first_token f ON f.file = leg.file AND f.id = leg.id
)
SELECT line, record, CASE WHEN is_prefill THEN 'not_request' WHEN start_ns IS NULL OR start_ns <= 0 THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN is_prefill THEN 'prefill_leg' WHEN start_ns IS NULL OR start_ns <= 0 THEN 'bad_time' END AS reason,
       to_text(id) AS request_id, CASE WHEN session <> 'None' THEN to_text(session) END AS turn_id, to_text(url) AS replica, 'gateway' AS observer,
       CASE WHEN ttft IS NOT NULL THEN arrival ELSE start_ns END AS arrival_ns,
       CASE WHEN ttft > 0 THEN ttft END AS ttft_ns, CASE WHEN ttft > 0 THEN 'first_token' END AS ttft_basis, CAST(1000 AS BIGINT) AS resolution_ns, 'ok' AS status
FROM whole
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, CASE WHEN p.id <> '' THEN 'ttft_line' ELSE 'log_line' END AS reason FROM x WHERE NOT coalesce(r.id <> '', false)
