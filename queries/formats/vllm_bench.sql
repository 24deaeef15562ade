-- format: vllm_bench
-- title: vllm bench serve, --save-result --save-detailed
-- spec: vllm/benchmarks/serve.py
-- source: vllm bench serve --save-result --save-detailed
-- input: json
-- detect: input_lens, output_lens, ttfts, itls, num_prompts
-- clock: client monotonic clock, tied to the file's date; only differences within one run are exact
-- resolution: 1us
-- observer: client
-- observes: request_id, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, model, prompt_tokens,
--   completion_tokens, status, error_kind, streamed, closed_loop
-- hint: without --save-detailed the arrays are missing; run one file a replica
-- traps: a failed request has ttft 0 and latency 0, which are not times ; e2e = ttft + sum(itls) where latencies are missing ; the wait for
--   --max-concurrency is not in the latency and is added ; with openai-chat ttft is the role-only chunk, told by as many gaps as
--   tokens, and the first gap is added ; the date is local time ; without --max-concurrency the loop is open
WITH d AS (
    SELECT line, record, TRY_CAST(j->'$.ttfts' AS DECIMAL(28, 9)[]) AS ttfts, TRY_CAST(j->'$.itls' AS DECIMAL(28, 9)[][]) AS itls,
           TRY_CAST(j->'$.latencies' AS DECIMAL(28, 9)[]) AS latencies, TRY_CAST(j->'$.start_times' AS DECIMAL(28, 9)[]) AS starts,
           TRY_CAST(j->'$.queue_times' AS DECIMAL(28, 9)[]) AS waits, TRY_CAST(j->'$.errors' AS VARCHAR[]) AS errors,
           TRY_CAST(j->'$.input_lens' AS BIGINT[]) AS inputs, TRY_CAST(j->'$.output_lens' AS BIGINT[]) AS outputs,
           coalesce(j->>'$.endpoint_type', j->>'$.backend') = 'openai-chat' AS chat, to_text(j->>'$.model_id') AS model,
           CASE WHEN json_exists(j, '$.max_concurrency') THEN coalesce(TRY_CAST(j->>'$.max_concurrency' AS DOUBLE) > 0, false) END AS closed, concat_ws(' ', j->>'$.date', s_ns(j->>'$.duration'), j->>'$.model_id') AS run,
           -- the fork of InferenceX writes when the run began; else the date is when it ended
           coalesce(s_ns(j->>'$.benchmark_start_time_unix'),
               naive_ns(epoch_ns(CAST(try_strptime(j->>'$.date', '%Y%m%d-%H%M%S') AS TIMESTAMP_NS)), CAST(getvariable('hedgectl_tz') AS VARCHAR))
               - s_ns(j->>'$.duration')) AS run_ns
    FROM raw
), r AS (
    -- the arrays side by side, so that no row carries all of them
    SELECT line, record, chat, model, closed, run_of(run, ttfts, inputs, outputs) AS run, run_ns, list_min(starts) AS first_start, unnest(CASE WHEN len(ttfts) > 0 THEN range(1, len(ttfts) + 1) ELSE [0] END) AS i,
           unnest(ttfts) AS ttft, unnest(itls[:len(ttfts)]) AS gaps, unnest(latencies[:len(ttfts)]) AS latency, unnest(starts[:len(ttfts)]) AS start,
           coalesce(unnest(waits[:len(ttfts)]), 0) AS wait, nullif(unnest(errors[:len(ttfts)]), '') AS error,
           unnest(inputs[:len(ttfts)]) AS input, unnest(outputs[:len(ttfts)]) AS output
    FROM d
), v AS (
    SELECT *, TRY(coalesce(latency, ttft + coalesce(list_sum(gaps), 0)) + wait) AS latency_s,
           TRY(ttft + wait + CASE WHEN chat AND len(gaps) > 0 AND len(gaps) = output THEN gaps[1] ELSE 0 END) AS first_s
    FROM r
), u AS (
    SELECT *, coalesce(error IS NOT NULL OR output = 0 OR NOT ttft > 0, false) AS failed,
           error IS NOT NULL AND regexp_matches(error, '(?i)time.?out|timed out') AS late,
           TRY_CAST(latency_s * 1000000000 AS BIGINT) AS latency_ns, TRY_CAST(first_s * 1000000000 AS BIGINT) AS first_ns,
           TRY(run_ns + TRY_CAST((start - first_start - wait) * 1000000000 AS BIGINT)) AS planned_ns
    FROM v
), k AS (
    SELECT *, CASE WHEN i = 0 THEN 'no_arrays' WHEN failed THEN NULL WHEN latency_ns IS NULL THEN 'no_duration'
                   WHEN latency_ns < 0 THEN 'negative_duration' WHEN latency_ns > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM u
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN NOT failed THEN ttft_fault(first_ns, latency_ns) END AS note,
       -- no id is written: the run's own values and the position in it
       run || '-' || (i - 1) AS request_id,
       'client' AS observer,
       model,
       -- planned send: the wait for a free slot of the client belongs to the user's latency
       planned_ns AS arrival_ns,
       CASE WHEN NOT failed THEN latency_ns END AS e2e_ns,
       CASE WHEN NOT failed AND first_ns > 0 AND first_ns <= latency_ns THEN first_ns END AS ttft_ns,
       CASE WHEN NOT failed AND first_ns > 0 AND first_ns <= latency_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       CASE WHEN input >= 0 THEN input END AS prompt_tokens,
       CASE WHEN NOT failed AND output >= 0 THEN output END AS completion_tokens,
       CASE WHEN late THEN 'censored' WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN late THEN 'timeout' WHEN failed THEN 'upstream' END AS error_kind,
       true AS streamed,
       closed AS closed_loop
FROM k
