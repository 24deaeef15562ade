-- format: sglang_export
-- title: SGLang metrics export, both generations of names
-- spec: sglang/srt/managers/tokenizer_manager.py and observability/req_time_stats.py
-- source: sglang serve --enable-metrics --export-metrics-to-file --export-metrics-to-file-dir DIR
-- input: json
-- detect: request_parameters, e2e_latency, finish_reason, id
-- clock: marks are wall clock of the server, epoch seconds; queue and e2e are differences on its performance counter
-- resolution: 1us
-- observer: engine
-- observes: request_id, replica, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns,
--   decode_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status, error_kind, streamed
-- hint: without --enable-metrics only e2e and tokens are written. The host is in the name of the log folder at most: keep one folder a replica.
--   Clients that left have no record. Prompts are in the file unless --log-requests --log-requests-level 0 is set
-- traps: forward_entry_time and prefill_finished_time are times though their names end otherwise ; older names are prefill_launch_latency,
--   prefill_finished_ts, decode_finished_ts, total_retractions ; queue_time was negative after retractions ; zeros of older disaggregated versions are
--   no measurement ; finish_reason is an object ; the queue sums all waits of a retracted request
WITH f AS (
    SELECT line, record, j AS m, json_extract_string(j->>'$.request_parameters', '$.stream') AS stream FROM raw WHERE json_valid(coalesce(j->>'$.request_parameters', '{}'))
    UNION ALL
    SELECT line, record, j, NULL FROM raw WHERE NOT json_valid(coalesce(j->>'$.request_parameters', '{}'))
), v AS (
    SELECT line, record, stream, m->>'$.id' AS id, m->>'$.dp_rank' AS dp, m->>'$.finish_reason.type' AS finish,
           coalesce(TRY_CAST(m->>'$.finish_reason.status_code' AS INTEGER), 0) AS code,
           s_ns(m->>'$.request_received_ts') AS received, s_ns(m->>'$.e2e_latency') AS e2e, s_ns(m->>'$.queue_time') AS queue,
           s_ns(m->>'$.first_token_latency') AS first_token,
           coalesce(s_ns(m->>'$.prefill_finished_time'), s_ns(m->>'$.prefill_finished_ts')) AS prefilled,
           s_ns(m->>'$.forward_entry_time') AS entered,
           coalesce(s_ns(m->>'$.request_finished_ts'), s_ns(m->>'$.decode_finished_ts')) AS finished,
           TRY(s_ns(m->>'$.prefill_launch_latency') + coalesce(s_ns(m->>'$.prefill_launch_delay'), 0)) AS launched,
           to_count(m->>'$.prompt_tokens') AS prompt_tokens, to_count(m->>'$.cached_tokens') AS cached_tokens,
           to_count(m->>'$.completion_tokens') AS completion_tokens, to_count(m->>'$.reasoning_tokens') AS reasoning_tokens
    FROM f
), c AS (
    SELECT *, coalesce(first_token, TRY(prefilled - received)) AS ttft,
           coalesce(TRY(prefilled - entered), launched) AS prefill, TRY(finished - prefilled) AS decode,
           least(coalesce(e2e, 86400000000000), 86400000000000) + 1000000 AS longest
    FROM v
), k AS (
    SELECT *,
           -- a queue of exactly 0 with no mark beside it was never written
           CASE WHEN queue BETWEEN 0 AND longest AND NOT (queue = 0 AND entered IS NULL AND prefilled IS NULL) THEN queue END AS queue_ns,
           CASE WHEN prefill > 0 AND prefill <= longest THEN prefill END AS prefill_ns,
           CASE WHEN decode BETWEEN 0 AND longest THEN decode END AS decode_ns,
           CASE WHEN ttft > 0 AND ttft <= e2e AND coalesce(completion_tokens, 1) > 0 THEN ttft END AS ttft_ns,
           CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM c
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       nullif(concat_ws(',', ttft_fault(ttft, longest), coalesce(part_fault(queue, longest), part_fault(prefill, longest), part_fault(decode, longest))), '') AS note,
       to_text(id) AS request_id, 'dp' || to_count(dp) AS replica, 'engine' AS observer,
       CASE WHEN received > 0 THEN received END AS arrival_ns,
       e2e AS e2e_ns, ttft_ns, CASE WHEN ttft_ns IS NOT NULL THEN 'engine' END AS ttft_basis,
       queue_ns, CASE WHEN queue_ns IS NOT NULL THEN 'measured' END AS queue_basis,
       prefill_ns, CASE WHEN prefill_ns IS NOT NULL THEN 'derived' END AS prefill_basis,
       decode_ns, CASE WHEN decode_ns IS NOT NULL THEN 'derived' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens,
       CASE WHEN finish = 'abort' AND code >= 400 THEN coalesce(http_class(code), 'error') WHEN finish = 'abort' THEN 'censored' ELSE 'ok' END AS status,
       CASE WHEN finish = 'abort' AND code BETWEEN 400 AND 599 THEN code END AS http_status,
       CASE WHEN finish = 'abort' AND code >= 400 THEN coalesce(http_kind(code), 'upstream') WHEN finish = 'abort' THEN 'aborted' END AS error_kind,
       to_bool(stream) AS streamed
FROM k
