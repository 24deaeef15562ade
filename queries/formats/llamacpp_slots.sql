-- format: llamacpp_slots
-- title: llama.cpp server log, lines of the slots
-- spec: ggml-org/llama.cpp tools/server/server-context.cpp
-- source: stderr of llama-server, default log level
-- input: text
-- detect: /slot\s+(launch_slot_|print_timing|release|get_availabl\w*): id|cancel task, id_task = \d/
-- clock: time since the process started, where the build writes it; no time of day
-- resolution: 10us
-- observer: engine
-- observes: attempt_id, observer, e2e_ns, ttft_ns, ttft_basis, prefill_ns, prefill_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens,
--   cached_tokens, completion_tokens, status, error_kind
-- one_row: part
-- hint: the log has neither request id nor time of day nor the wait for a slot. Responses kept beside it (llamacpp_response) have the same timings: --join finds
--   them by these
-- traps: one request is five lines or more, older builds print the timings as one record of several lines ; total time is prompt + eval, not wall time ; tokens
--   behind the prompt time leave the cached ones out, the slot's n_tokens has them all ; an abandoned whole answer runs to its end and
--   looks normal ; requests of clients that left may still be launched ; task numbers start anew with the process
WITH t AS (
    SELECT line, record, text, line >> 40 AS file,
           CASE WHEN regexp_matches(text, '^\d+\.\d\d\.\d{3}\.\d{3} ') THEN
               TRY(CAST(split_part(text, '.', 1) AS BIGINT) * 60000000000 + CAST(split_part(text, '.', 2) AS BIGINT) * 1000000000
                   + CAST(split_part(text, '.', 3) AS BIGINT) * 1000000 + CAST(left(split_part(text, '.', 4), 3) AS BIGINT) * 1000) END AS clock,
           CASE WHEN regexp_matches(text, 'slot\s+launch_slot_: id .*processing task') THEN 'launch'
                WHEN regexp_matches(text, 'slot\s+release: id ') THEN 'release'
                WHEN regexp_matches(text, 'cancel task, id_task = \d') THEN 'cancel'
                WHEN regexp_matches(text, 'prompt eval time = ') THEN 'prompt'
                WHEN regexp_matches(text, '\beval time = ') THEN 'eval'
                WHEN regexp_matches(text, 'slot\s+print_timing: id ') THEN 'timing' END AS what,
           TRY_CAST(nullif(coalesce(nullif(regexp_extract(text, '\| task (\d+) \|', 1), ''), regexp_extract(text, 'id_task = (\d+)', 1)), '') AS BIGINT) AS own_task
    FROM raw
), n AS (
    -- lines of an older record name no task: theirs is the one above
    SELECT * EXCLUDE (own_task), CASE WHEN what IS NULL THEN NULL ELSE coalesce(own_task, last_value(own_task IGNORE NULLS) OVER (PARTITION BY file ORDER BY line, record)) END AS task
    FROM t
), o AS (
    -- the clock starts anew with the process, and so do the numbers of tasks
    SELECT *, coalesce(clock < lag(clock IGNORE NULLS) OVER (PARTITION BY file ORDER BY line, record) - 1000000000, false) AS restarted FROM n
), p AS (
    SELECT *, count(*) FILTER (restarted) OVER (PARTITION BY file ORDER BY line, record) AS boot FROM o
), g AS (
    SELECT *, count(*) FILTER (what = 'launch') OVER (PARTITION BY file, boot, task ORDER BY line, record) AS turn FROM p
), q AS (
    SELECT file, boot, task, turn, min(line) FILTER (what = 'launch') AS launched_line, min(line) FILTER (what = 'cancel') AS cancelled_line,
           max(line) FILTER (what = 'release') AS released_line,
           min(clock) FILTER (what = 'launch') AS start_at, max(clock) FILTER (what = 'release') AS end_at,
           max(regexp_extract(text, 'prompt eval time =\s*([0-9.]+) ms', 1)) FILTER (what = 'prompt') AS prompt_ms,
           max(TRY_CAST(nullif(regexp_extract(text, 'ms /\s*(\d+) tokens', 1), '') AS BIGINT)) FILTER (what = 'prompt') AS fresh,
           max(regexp_extract(text, '\beval time =\s*([0-9.]+) ms', 1)) FILTER (what = 'eval') AS eval_ms,
           max(TRY_CAST(nullif(regexp_extract(text, 'ms /\s*(\d+) (?:tokens|runs)', 1), '') AS BIGINT)) FILTER (what = 'eval') AS answer,
           max(CASE WHEN contains(text, 'truncated = 0') THEN TRY_CAST(nullif(regexp_extract(text, 'n_tokens = (\d+)', 1), '') AS BIGINT) END) FILTER (what = 'release') AS held
    FROM g WHERE task IS NOT NULL GROUP BY ALL
), k AS (
    SELECT *, coalesce(launched_line, cancelled_line) AS line, ms_ns(prompt_ms) AS prefill, ms_ns(eval_ms) AS decode,
           coalesce(TRY(end_at - start_at), TRY(ms_ns(prompt_ms) + ms_ns(eval_ms))) AS e2e,
           cancelled_line IS NOT NULL AND eval_ms IS NULL AS gone
    FROM q
), r AS (
    SELECT *, CASE WHEN launched_line IS NOT NULL AND released_line IS NULL THEN 'unfinished' END AS other,
           CASE WHEN launched_line IS NOT NULL AND e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration'
                WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM k WHERE launched_line IS NOT NULL OR cancelled_line IS NOT NULL
)
SELECT line, CAST(0 AS INTEGER) AS record,
       CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, coalesce(other, bad) AS reason,
       CASE WHEN prefill > e2e OR decode > e2e THEN 'component_out_of_range' END AS note,
       'timings-' || prompt_ms || '-' || eval_ms AS attempt_id, 'engine' AS observer, e2e AS e2e_ns,
       CASE WHEN prefill > 0 AND prefill <= e2e AND answer > 0 THEN prefill END AS ttft_ns, CASE WHEN prefill > 0 AND prefill <= e2e AND answer > 0 THEN 'engine' END AS ttft_basis,
       CASE WHEN prefill <= e2e THEN prefill END AS prefill_ns, CASE WHEN prefill <= e2e THEN 'measured' END AS prefill_basis,
       CASE WHEN decode <= e2e THEN decode END AS decode_ns, CASE WHEN decode <= e2e THEN 'measured' END AS decode_basis,
       CAST(10000 AS BIGINT) AS resolution_ns,
       CASE WHEN held + 1 - answer >= fresh THEN held + 1 - answer END AS prompt_tokens,
       CASE WHEN held + 1 - answer >= fresh THEN held + 1 - answer - fresh END AS cached_tokens,
       answer AS completion_tokens,
       CASE WHEN gone OR eval_ms IS NULL THEN 'censored' ELSE 'ok' END AS status,
       CASE WHEN gone THEN 'client_gone' WHEN eval_ms IS NULL THEN 'aborted' END AS error_kind
FROM r
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, CASE WHEN what IS NULL AND NOT regexp_matches(text, '\bslot\s+\S+: id |(prompt|total) time =|^\s+total time') THEN 'log_line' ELSE 'slot_line' END AS reason
FROM n WHERE NOT EXISTS (FROM r WHERE r.line = n.line)
