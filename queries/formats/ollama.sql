-- format: ollama
-- title: Ollama final response objects
-- spec: ollama api/types.go and server/routes.go
-- source: keep the last object of POST /api/chat and /api/generate; the /v1 endpoints drop all durations
-- input: json
-- detect: total_duration, created_at, model, done, eval_duration|load_duration
-- clock: created_at is wall clock at the end, UTC; durations are differences
-- resolution: 1us
-- observer: engine
-- observes: model, observer, arrival_ns, e2e_ns, prefill_ns, prefill_basis, decode_ns, decode_basis, resolution_ns, prompt_tokens,
--   completion_tokens, status
-- hint: the wait for a slot (OLLAMA_NUM_PARALLEL) and the first token are in no field: put a gateway that logs TTFT in front
-- traps: durations are nanoseconds ; created_at is the end ; load_duration includes the wait until another model is unloaded ; fields of value 0 are left out ;
--   prompt_eval_count counts cached tokens in newer versions only, so a rate made of it means nothing ; objects with done = false are parts of a stream ;
--   done_reason load and unload are no requests
WITH f AS (
    SELECT line, record, to_bool(j->>'$.done') AS done, j->>'$.done_reason' AS why, iso_in_ns(j->>'$.created_at', NULL) AS end_ns, j->>'$.model' AS model,
           ns_ns(j->>'$.total_duration') AS total, ns_ns(j->>'$.prompt_eval_duration') AS prefill, ns_ns(j->>'$.eval_duration') AS decode,
           to_count(j->>'$.prompt_eval_count') AS prompt, to_count(j->>'$.eval_count') AS answer
    FROM raw
), k AS (
    SELECT *, CASE WHEN why IN ('load', 'unload') THEN 'model_load' WHEN done IS NOT TRUE THEN 'stream_part' END AS other,
           CASE WHEN end_ns IS NULL THEN 'bad_time' WHEN total IS NULL THEN 'no_duration' WHEN total < 0 THEN 'negative_duration'
                WHEN total > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM f
)
SELECT line, record, CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind,
       coalesce(other, bad) AS reason,
       CASE WHEN prefill NOT BETWEEN 0 AND total OR decode NOT BETWEEN 0 AND total THEN 'component_out_of_range' END AS note,
       to_text(model) AS model, 'engine' AS observer, TRY(end_ns - total) AS arrival_ns, total AS e2e_ns,
       CASE WHEN prefill BETWEEN 0 AND total THEN prefill END AS prefill_ns, CASE WHEN prefill BETWEEN 0 AND total THEN 'measured' END AS prefill_basis,
       CASE WHEN decode BETWEEN 0 AND total THEN decode END AS decode_ns, CASE WHEN decode BETWEEN 0 AND total THEN 'measured' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns, prompt AS prompt_tokens, coalesce(answer, 0) AS completion_tokens, 'ok' AS status
FROM k
