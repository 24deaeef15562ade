-- format: tgi
-- title: Text Generation Inference, JSON log
-- spec: huggingface/text-generation-inference router/src/server.rs and logging.rs
-- source: text-generation-launcher --json-output
-- input: json
-- detect: target~^text_generation, level, message, timestamp
-- clock: wall clock of the router at the end of the answer, UTC; durations are differences of a monotonic clock
-- resolution: 1us
-- observer: engine
-- observes: route, observer, arrival_ns, e2e_ns, queue_ns, queue_basis, resolution_ns, completion_tokens, status, http_status, error_kind, streamed
-- hint: the log has no first token and no request id: put a gateway that logs TTFT in front and join by time
-- traps: durations are text with a unit each ; inference_time is prefill and decode together, so neither is read ; time_per_token has the prefill in it, it gives
--   the count of tokens only ; clients that left have no line ; the time is the end ; headers of whole answers have truncated milliseconds
WITH f AS (
    SELECT line, record, coalesce(j->'$.span', j->'$.spans[0]') AS s, j->>'$.message' AS message, j->>'$.level' AS level, iso_in_ns(j->>'$.timestamp', NULL) AS end_ns
    FROM raw
), u AS (
    SELECT *, s->>'$.name' AS name, duration_ns(s->>'$.total_time') AS total, duration_ns(s->>'$.queue_time') AS queue,
           duration_ns(s->>'$.inference_time') AS inference, duration_ns(s->>'$.time_per_token') AS each,
           (s->>'$.total_time') IS NOT NULL AS timed, level = 'ERROR' AND regexp_matches(message, '^(Model is overloaded|Request failed during generation)') AS failed
    FROM f
), k AS (
    SELECT *, CASE WHEN NOT timed AND NOT coalesce(failed, false) THEN 'log_line' END AS other,
           CASE WHEN NOT timed THEN CASE WHEN end_ns IS NULL THEN 'bad_time' END WHEN end_ns IS NULL THEN 'bad_time' WHEN total IS NULL THEN 'bad_duration'
                WHEN total > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM u
)
SELECT line, record, CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, coalesce(other, bad) AS reason,
       CASE WHEN queue > total THEN 'component_out_of_range' END AS note,
       to_text(name) AS route, 'engine' AS observer,
       -- a refusal is instant: its time is the line's
       CASE WHEN timed THEN TRY(end_ns - total) ELSE end_ns END AS arrival_ns, CASE WHEN timed THEN total END AS e2e_ns,
       CASE WHEN queue <= total THEN queue END AS queue_ns, CASE WHEN queue <= total THEN 'measured' END AS queue_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       CASE WHEN inference >= each AND each > 0 AND NOT failed IS TRUE THEN TRY_CAST(round(inference / each) AS BIGINT) END AS completion_tokens,
       CASE WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN failed AND message LIKE 'Model is overloaded%' THEN 429 END AS http_status,
       CASE WHEN failed THEN CASE WHEN message LIKE 'Model is overloaded%' THEN 'rate_limited' ELSE 'upstream' END END AS error_kind,
       CASE WHEN contains(name, 'stream') THEN true WHEN name = 'generate' THEN false END AS streamed
FROM k
