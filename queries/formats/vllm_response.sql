-- format: vllm_response
-- title: vLLM responses with metrics{}, bodies or last stream chunks
-- spec: vllm/entrypoints/generate/base of vLLM
-- source: vllm serve --enable-per-request-metrics --enable-prompt-tokens-details; keep the body, or the last chunk of a stream asked for with
--   stream_options.include_usage
-- input: json
-- detect: id|body|last|chunks|response|metrics, /"queue_time_ms"\s*:/, /"generation_time_ms"\s*:/, /"time_to_first_token_ms"\s*:/
-- clock: durations are differences on the engine's monotonic clock; created is whole seconds of wall clock
-- resolution: 1us
-- observer: engine
-- observes: request_id, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns,
--   decode_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, status, http_status, error_kind, streamed, n_choices
-- hint: no replica is in a body: keep one file a replica. Time outside the engine (front end, network) is not in metrics{}: the gateway's log
--   has it. Abandoned requests leave nothing
-- traps: time_to_first_token_ms counts from the scheduling, so it is prefill and not TTFT: the queue is added ; milliseconds, where the span of the same
--   engine has seconds ; metrics is null for n > 1 ; created is a whole second, so the order within it is unknown ; e2e is the engine's
--   part only, 4 to 219 ms less than the span's ; an engine that dies answers 200 and then an error event in the stream
WITH b AS (
    -- the body on its own, or kept by a recorder under body, last, response or as the last of its chunks
    SELECT line, record, coalesce(j->'$.body', j->'$.last', CASE WHEN json_type(j->'$.response') = 'OBJECT' THEN j->'$.response' END,
                                  j->'$.chunks[#-1].data', j) AS b,
           CASE WHEN json_type(j->'$.stream') = 'BOOLEAN' THEN (j->>'$.stream') = 'true' END AS stream
    FROM raw
), f AS (
    SELECT line, record, b->>'$.id' AS id, b->>'$.object' AS object, to_count(b->>'$.created') AS created, b->>'$.model' AS model, stream,
           json_type(b->'$.metrics') = 'OBJECT' AS measured, json_type(b->'$.usage') = 'OBJECT' AS counted,
           json_type(b->'$.error') = 'OBJECT' AS failed, TRY_CAST(b->>'$.error.code' AS INTEGER) AS code,
           ms_ns(b->>'$.metrics.queue_time_ms') AS queue, ms_ns(b->>'$.metrics.time_to_first_token_ms') AS prefill,
           ms_ns(b->>'$.metrics.generation_time_ms') AS decode,
           to_count(b->>'$.usage.prompt_tokens') AS prompt_tokens, to_count(b->>'$.usage.prompt_tokens_details.cached_tokens') AS cached_tokens,
           to_count(b->>'$.usage.completion_tokens') AS completion_tokens,
           CASE WHEN json_type(b->'$.choices') = 'ARRAY' THEN json_array_length(b->'$.choices') END AS choices,
           b->>'$.choices[0].finish_reason' AS finish
    FROM b
), k AS (
    SELECT * EXCLUDE (queue, prefill, decode),
           CASE WHEN queue BETWEEN 0 AND 86400000000000 THEN queue END AS queue_ns,
           CASE WHEN prefill BETWEEN 0 AND 86400000000000 THEN prefill END AS prefill_ns,
           CASE WHEN decode BETWEEN 0 AND 86400000000000 THEN decode END AS decode_ns,
           coalesce(NOT queue BETWEEN 0 AND 86400000000000, false) OR coalesce(NOT prefill BETWEEN 0 AND 86400000000000, false)
               OR coalesce(NOT decode BETWEEN 0 AND 86400000000000, false) AS odd,
           CASE WHEN coalesce(failed, false) THEN NULL
                WHEN NOT coalesce(counted, false) AND NOT coalesce(measured, false) THEN 'no_metrics' END AS other
    FROM f
), m AS (
    SELECT *, CASE WHEN queue_ns + prefill_ns + decode_ns <= 86400000000000 THEN queue_ns + prefill_ns + decode_ns END AS e2e FROM k
)
SELECT line, record, CASE WHEN other IS NOT NULL THEN 'not_request' ELSE 'attempt' END AS kind, other AS reason,
       CASE WHEN odd THEN 'component_out_of_range' END AS note,
       to_text(id) AS request_id, to_text(model) AS model, 'engine' AS observer,
       CASE WHEN created BETWEEN 946684800 AND 7258118399 THEN created * 1000000000 END AS arrival_ns,
       e2e AS e2e_ns,
       CASE WHEN queue_ns + prefill_ns > 0 AND queue_ns + prefill_ns <= coalesce(e2e, queue_ns + prefill_ns) THEN queue_ns + prefill_ns END AS ttft_ns,
       CASE WHEN queue_ns + prefill_ns > 0 AND queue_ns + prefill_ns <= coalesce(e2e, queue_ns + prefill_ns) THEN 'engine' END AS ttft_basis,
       queue_ns, CASE WHEN queue_ns IS NOT NULL THEN 'measured' END AS queue_basis,
       prefill_ns, CASE WHEN prefill_ns IS NOT NULL THEN 'measured' END AS prefill_basis,
       decode_ns, CASE WHEN decode_ns IS NOT NULL THEN 'measured' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns, prompt_tokens, cached_tokens, completion_tokens,
       CASE WHEN failed OR finish = 'error' THEN 'error' WHEN finish = 'abort' THEN 'censored' ELSE 'ok' END AS status,
       CASE WHEN failed AND code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN failed THEN coalesce(http_kind(code), 'upstream') WHEN finish = 'error' THEN 'upstream' WHEN finish = 'abort' THEN 'aborted' END AS error_kind,
       CASE WHEN object LIKE '%.chunk' THEN true ELSE coalesce(stream, CASE WHEN object IS NOT NULL THEN false END) END AS streamed,
       CASE WHEN choices > 1 THEN TRY_CAST(choices AS INTEGER) END AS n_choices
FROM m
