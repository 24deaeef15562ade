-- format: llamacpp_response
-- title: llama.cpp server responses with timings{}, bodies or last stream chunks
-- spec: ggml-org/llama.cpp tools/server/server-task.h
-- source: always written by llama-server; keep the body, or the last chunk of a stream
-- input: json
-- detect: id|body|last|chunks|response|timings, /"prompt_per_token_ms"\s*:/, /"predicted_ms"\s*:/
-- clock: durations are differences of a steady clock; created is whole seconds of wall clock at the end of the answer
-- resolution: 1us
-- observer: engine
-- observes: request_id, attempt_id, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, prefill_ns, prefill_basis, decode_ns, decode_basis,
--   resolution_ns, prompt_tokens, cached_tokens, completion_tokens, status, http_status, error_kind, streamed
-- hint: the wait for a slot is in no field: the time to the headers of a stream, as a gateway logs it, is that wait. The slot log (llamacpp_slots) has the same
--   timings to 0.01 ms: both formats make attempt_id of them, so that --join finds them
-- traps: prompt_n leaves the cached tokens out, the prompt is cache_n + prompt_n ; the first token is counted in prompt_ms ; predicted_per_token_ms divides
--   by n - 1 ; e2e is slot time without the wait ; with timings_per_token every chunk has timings, only the last one counts ; abandoned whole answers run to
--   their end and look normal
WITH b AS (
    SELECT line, record, coalesce(j->'$.body', j->'$.last', CASE WHEN json_type(j->'$.response') = 'OBJECT' THEN j->'$.response' END,
                                  j->'$.chunks[#-1].data', j) AS b,
           CASE WHEN json_type(j->'$.stream') = 'BOOLEAN' THEN (j->>'$.stream') = 'true' END AS stream
    FROM raw
), f AS (
    SELECT line, record, b->>'$.id' AS id, b->>'$.object' AS object, to_count(b->>'$.created') AS created, b->>'$.model' AS model, stream,
           json_type(b->'$.error') = 'OBJECT' AS failed, TRY_CAST(b->>'$.error.code' AS INTEGER) AS code,
           json_type(b->'$.timings') = 'OBJECT' AS measured,
           (b->>'$.object') LIKE '%.chunk' AND json_array_length(b->'$.choices') > 0 AND (b->>'$.choices[0].finish_reason') IS NULL AS part,
           b->>'$.timings.prompt_ms' AS prompt_ms, b->>'$.timings.predicted_ms' AS predicted_ms,
           to_count(b->>'$.timings.cache_n') AS cached, to_count(b->>'$.timings.prompt_n') AS fresh, to_count(b->>'$.timings.predicted_n') AS answer,
           to_count(b->>'$.usage.prompt_tokens') AS usage_prompt
    FROM b
), u AS (
    SELECT *, ms_ns(prompt_ms) AS prefill, ms_ns(predicted_ms) AS decode, TRY(ms_ns(prompt_ms) + ms_ns(predicted_ms)) AS e2e FROM f
), k AS (
    SELECT *, CASE WHEN failed IS TRUE THEN NULL WHEN NOT measured OR measured IS NULL THEN 'no_timings' WHEN part THEN 'stream_part' END AS other,
           CASE WHEN failed IS TRUE THEN NULL WHEN e2e IS NULL THEN 'no_duration' WHEN prefill < 0 OR decode < 0 THEN 'negative_duration'
                WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM u
)
SELECT line, record, CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, coalesce(other, bad) AS reason,
       to_text(id) AS request_id,
       CASE WHEN failed IS NOT TRUE THEN printf('timings-%.2f-%.2f', TRY_CAST(prompt_ms AS DOUBLE), TRY_CAST(predicted_ms AS DOUBLE)) END AS attempt_id,
       to_text(model) AS model, 'engine' AS observer,
       CASE WHEN created BETWEEN 946684800 AND 7258118399 AND bad IS NULL AND failed IS NOT TRUE THEN created * 1000000000 - e2e END AS arrival_ns,
       CASE WHEN failed IS NOT TRUE THEN e2e END AS e2e_ns,
       CASE WHEN prefill > 0 AND answer > 0 AND failed IS NOT TRUE THEN prefill END AS ttft_ns,
       CASE WHEN prefill > 0 AND answer > 0 AND failed IS NOT TRUE THEN 'engine' END AS ttft_basis,
       CASE WHEN failed IS NOT TRUE THEN prefill END AS prefill_ns, CASE WHEN failed IS NOT TRUE AND prefill IS NOT NULL THEN 'measured' END AS prefill_basis,
       CASE WHEN failed IS NOT TRUE THEN decode END AS decode_ns, CASE WHEN failed IS NOT TRUE AND decode IS NOT NULL THEN 'measured' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       coalesce(TRY(cached + fresh), usage_prompt) AS prompt_tokens, cached AS cached_tokens, answer AS completion_tokens,
       CASE WHEN failed THEN 'error' ELSE 'ok' END AS status, CASE WHEN failed AND code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN failed THEN coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN object LIKE '%.chunk' THEN true ELSE coalesce(stream, CASE WHEN object IS NOT NULL THEN false END) END AS streamed
FROM k
