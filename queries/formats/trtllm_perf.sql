-- format: trtllm_perf
-- title: TensorRT-LLM GET /perf_metrics, plain and disaggregated
-- spec: NVIDIA/TensorRT-LLM tensorrt_llm/serve/openai_server.py and serve/perf_metrics.py
-- source: return_perf_metrics: true and perf_metrics_max_requests: 10000 in the options of trtllm-serve (and of the disaggregated server); GET /perf_metrics
--   into a file each few seconds: reading empties the buffer
-- input: json
-- detect: perf_metrics|gen_perf_metrics|ctx_perf_metrics, /"(first_scheduled_time|disagg_server_arrival_time)"/
-- clock: steady clock of the host, no time of day; the parts of one request are comparable
-- resolution: 1us
-- observer: engine
-- observes: attempt_id, replica, observer, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns, decode_basis,
--   resolution_ns, status
-- hint: tokens, model, status and time of day are not in it: join a gateway's log. The buffer holds perf_metrics_max_requests entries and drops the oldest
--   silently
-- traps: seconds of a steady clock that look like no date ; server_first_token_time of a whole answer is its end, so the engine's own mark is used ;
--   a mark may be null or 0: not observed ; in a disaggregated pair the waits of both sides are queue and the transfer of the cache is neither ;
--   an entry of the disaggregated server may lack its context side ; request_id counts per engine and repeats ; /v1/responses is missing
WITH f AS (
    SELECT line, record, (j->>'$.gen_perf_metrics') IS NOT NULL OR (j->>'$.ctx_perf_metrics') IS NOT NULL OR (j->>'$.disagg_server_arrival_time') IS NOT NULL AS pair,
           j->'$.perf_metrics.timing_metrics' AS own, j->'$.ctx_perf_metrics.perf_metrics.timing_metrics' AS ctx, j->'$.gen_perf_metrics.perf_metrics.timing_metrics' AS gen,
           nullif(s_ns(j->>'$.disagg_server_arrival_time'), 0) AS d_arrival, nullif(s_ns(j->>'$.disagg_server_first_token_time'), 0) AS d_first,
           coalesce(j->>'$.ctx_perf_metrics.ctx_request_id', j->>'$.gen_perf_metrics.ctx_request_id', j->>'$.ctx_request_id') AS shared_id,
           to_text(j->>'$.gen_server') AS gen_server
    FROM raw
), t AS (
    SELECT line, record, pair, d_arrival, d_first, shared_id, gen_server,
           nullif(s_ns(own->>'$.server_arrival_time'), 0) AS o_server, nullif(s_ns(own->>'$.arrival_time'), 0) AS o_arrival,
           nullif(s_ns(own->>'$.first_scheduled_time'), 0) AS o_sched, nullif(s_ns(own->>'$.first_token_time'), 0) AS o_first, nullif(s_ns(own->>'$.last_token_time'), 0) AS o_last,
           nullif(s_ns(ctx->>'$.arrival_time'), 0) AS c_arrival, nullif(s_ns(ctx->>'$.first_scheduled_time'), 0) AS c_sched, nullif(s_ns(ctx->>'$.first_token_time'), 0) AS c_first,
           nullif(s_ns(gen->>'$.arrival_time'), 0) AS g_arrival, nullif(s_ns(gen->>'$.first_scheduled_time'), 0) AS g_sched,
           nullif(s_ns(gen->>'$.first_token_time'), 0) AS g_first, nullif(s_ns(gen->>'$.last_token_time'), 0) AS g_last,
           coalesce(TRY(s_ns(gen->>'$.kv_cache_transfer_end') - s_ns(gen->>'$.kv_cache_transfer_start')), 0) AS moved
    FROM f
), d AS (
    SELECT line, record, pair, shared_id, gen_server,
           CASE WHEN pair THEN TRY(g_last - coalesce(d_arrival, c_arrival)) ELSE TRY(o_last - coalesce(o_server, o_arrival)) END AS e2e,
           CASE WHEN pair THEN TRY(coalesce(d_first, g_first) - coalesce(d_arrival, c_arrival)) ELSE TRY(o_first - coalesce(o_server, o_arrival)) END AS ttft,
           CASE WHEN pair THEN TRY((c_sched - c_arrival) + greatest(g_sched - g_arrival - moved, 0)) ELSE TRY(o_sched - o_arrival) END AS queue,
           CASE WHEN pair THEN TRY(c_first - c_sched) ELSE TRY(o_first - o_sched) END AS prefill,
           CASE WHEN pair THEN TRY(g_last - g_first) ELSE TRY(o_last - o_first) END AS decode
    FROM t
), k AS (
    SELECT *, CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad,
           CASE WHEN pair THEN 'derived' ELSE 'measured' END AS basis
    FROM d
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       nullif(concat_ws(',', ttft_fault(ttft, e2e), coalesce(part_fault(queue, e2e), part_fault(prefill, e2e), part_fault(decode, e2e))), '') AS note,
       'ctx-' || to_text(shared_id) AS attempt_id, gen_server AS replica, 'engine' AS observer, e2e AS e2e_ns,
       CASE WHEN ttft > 0 AND ttft <= e2e THEN ttft END AS ttft_ns, CASE WHEN ttft > 0 AND ttft <= e2e THEN 'engine' END AS ttft_basis,
       CASE WHEN queue BETWEEN 0 AND e2e THEN queue END AS queue_ns, CASE WHEN queue BETWEEN 0 AND e2e THEN basis END AS queue_basis,
       CASE WHEN prefill BETWEEN 0 AND e2e THEN prefill END AS prefill_ns, CASE WHEN prefill BETWEEN 0 AND e2e THEN basis END AS prefill_basis,
       CASE WHEN decode BETWEEN 0 AND e2e THEN decode END AS decode_ns, CASE WHEN decode BETWEEN 0 AND e2e THEN basis END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns, 'ok' AS status
FROM k
