-- format: vllm_log
-- title: vLLM server log with requests: the abandoned ones
-- spec: vllm/entrypoints/logger.py and vllm/v1/engine/async_llm.py of vLLM
-- source: vllm serve --enable-log-requests (--enable-log-outputs for the end of good ones)
-- input: text
-- detect: /\[(request_logger|logger|async_llm)\.py:\d+\] (Received request \S+: |Added request \S+\.|Aborted request\(s\) |Request \S+ (aborted|failed)|Generated response )/
-- clock: naive wall clock in whole seconds without a year, so there is no arrival; durations are differences of two lines
-- resolution: 1s
-- observer: engine
-- observes: request_id, observer, e2e_ns, resolution_ns, status, error_kind
-- one_row: part
-- hint: this log is the only place of vLLM where abandoned requests show; their times and the good ones' come from its spans (vllm_otlp) or from the gateway
-- traps: whole seconds ; no year and no zone ; a good request has no end unless outputs are logged too ; two lines tell one abort ; internal ids have eight characters
--   more ; a request id may be used twice ; a finished stream says streaming_complete and not its reason ; requests refused with 400 or 404 have no line
WITH t AS (
    SELECT line, record, line >> 40 AS file, text,
           CASE WHEN contains(text, '] Received request ') THEN 'received' WHEN contains(text, '] Added request ') THEN 'added'
                WHEN regexp_matches(text, '\] Request \S+ aborted\.') THEN 'aborted' WHEN contains(text, '] Aborted request(s) ') THEN 'aborting'
                WHEN regexp_matches(text, '\] Request \S+ failed \(') THEN 'failed'
                WHEN contains(text, '] Generated response ') AND NOT contains(text, '(streaming delta)') THEN 'answered' END AS what,
           epoch_ns(CAST(try_strptime('2000-' || nullif(regexp_extract(text, '\b(\d\d-\d\d \d\d:\d\d:\d\d)\b', 1), ''), '%Y-%m-%d %H:%M:%S') AS TIMESTAMP_NS)) AS clock
    FROM raw
), i AS (
    SELECT * EXCLUDE (text), nullif(regexp_extract(text, '\] (?:Received request|Request|Generated response) ([^\s:]+)', 1), '') AS id,
           regexp_extract(text, 'failed \(([^)]*)', 1) AS why, regexp_extract(text, 'finish_reason: (\w+)', 1) AS finish
    FROM t
), g AS (
    SELECT *, count(*) FILTER (what = 'received') OVER (PARTITION BY file, id ORDER BY line, record) AS turn FROM i WHERE id IS NOT NULL
), q AS (
    SELECT file, id, turn,
           -- a log that begins in the middle has ends without a start
           coalesce(min(line) FILTER (what = 'received'), min(line) FILTER (what IN ('aborted', 'failed'))) AS line, min(clock) FILTER (what = 'received') AS start_at,
           max(clock) FILTER (what IN ('aborted', 'failed', 'answered')) AS end_at,
           max(CASE what WHEN 'failed' THEN 3 WHEN 'aborted' THEN 2 WHEN 'answered' THEN 1 END) AS outcome,
           max(why) FILTER (what = 'failed') AS why, max(finish) FILTER (what = 'answered') AS finish
    FROM g GROUP BY ALL
), d AS (
    -- the year is not in the log: a log that runs into the next one goes back by almost a leap year
    SELECT *, TRY(end_at - start_at + CASE WHEN end_at < start_at - 15552000000000000 THEN 31622400000000000 ELSE 0 END) AS e2e
    FROM q WHERE line IS NOT NULL AND outcome IS NOT NULL
)
SELECT line, CAST(0 AS INTEGER) AS record, CASE WHEN e2e BETWEEN 0 AND 86400000000000 OR start_at IS NULL THEN 'attempt' ELSE 'reject' END AS kind,
       CASE WHEN start_at IS NULL THEN NULL WHEN e2e IS NULL THEN 'bad_time' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS reason,
       to_text(id) AS request_id, 'engine' AS observer,
       -- within one second of the clock a duration is unknown
       nullif(e2e, 0) AS e2e_ns, CAST(1000000000 AS BIGINT) AS resolution_ns,
       CASE WHEN outcome = 3 THEN 'error' WHEN outcome = 2 OR finish = 'abort' THEN 'censored' WHEN finish = 'error' THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN outcome = 3 THEN CASE WHEN regexp_matches(why, 'bad request|input error') THEN 'client' ELSE 'upstream' END
            WHEN outcome = 2 THEN 'client_gone' WHEN finish = 'abort' THEN 'aborted' WHEN finish = 'error' THEN 'upstream' END AS error_kind
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind,
       CASE what WHEN 'received' THEN 'end_not_logged' WHEN 'added' THEN 'request_line' WHEN 'aborted' THEN 'request_line' WHEN 'aborting' THEN 'request_line'
            WHEN 'failed' THEN 'request_line' WHEN 'answered' THEN 'request_line' ELSE 'log_line' END AS reason
FROM t WHERE NOT EXISTS (FROM d WHERE d.line = t.line)
