-- format: vllm_bench
-- title: vllm bench serve, --save-result --save-detailed
-- spec: vllm/benchmarks/serve.py
-- source: vllm bench serve --save-result --save-detailed
-- input: json
-- detect: input_lens, output_lens, ttfts, itls, num_prompts
-- clock: client monotonic clock, tied to the file's date; only differences within one run are exact
-- resolution: 1us
-- observer: client
-- observes: request_id, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, model, prompt_tokens, completion_tokens, status, error_kind, streamed
-- hint: without --save-detailed the arrays are missing; run one file a replica
-- traps: a failed request has ttft 0 and latency 0, which are not times ; e2e = ttft + sum(itls) where latencies are missing ; the wait for
--   --max-concurrency is not in the latency and is added ; with openai-chat the first token is the role-only chunk ; the date is local time
WITH d AS (
    SELECT line, record, j, CAST(j->'$.ttfts' AS DECIMAL(28, 9)[]) AS ttfts, CAST(j->'$.itls' AS DECIMAL(28, 9)[][]) AS itls,
           CAST(j->'$.latencies' AS DECIMAL(28, 9)[]) AS latencies, CAST(j->'$.start_times' AS DECIMAL(28, 9)[]) AS starts,
           CAST(j->'$.queue_times' AS DECIMAL(28, 9)[]) AS waits, CAST(j->'$.errors' AS VARCHAR[]) AS errors,
           CAST(j->'$.input_lens' AS BIGINT[]) AS inputs, CAST(j->'$.output_lens' AS BIGINT[]) AS outputs,
           naive_ns(epoch_ns(CAST(try_strptime(j->>'$.date', '%Y%m%d-%H%M%S') AS TIMESTAMP_NS)), CAST(getvariable('hedgectl_tz') AS VARCHAR)) AS end_of_run_ns,
           s_ns(j->>'$.duration') AS duration_ns_
    FROM raw
), r AS (
    SELECT *, unnest(range(1, len(ttfts) + 1)) AS i, list_min(starts) AS first_start FROM d
), v AS (
    SELECT *, ttfts[i] AS ttft, coalesce(latencies[i], ttfts[i] + coalesce(list_sum(itls[i]), 0)) AS latency,
           coalesce(waits[i], 0) AS wait,
           coalesce(errors[i], '') <> '' OR outputs[i] = 0 OR ttfts[i] = 0 AS failed
    FROM r
)
SELECT line, record, 'attempt' AS kind, NULL AS reason,
       -- no id is written: the run's own content and the position in it
       left(md5(CAST(j AS VARCHAR)), 12) || '-' || (i - 1) AS request_id,
       'client' AS observer,
       to_text(j->>'$.model_id') AS model,
       -- planned send: the wait for a free slot of the client belongs to the user's latency
       end_of_run_ns - duration_ns_ + CAST((starts[i] - first_start - wait) * 1000000000 AS BIGINT) AS arrival_ns,
       CASE WHEN NOT failed THEN CAST((latency + wait) * 1000000000 AS BIGINT) END AS e2e_ns,
       CASE WHEN NOT failed THEN CAST((ttft + wait) * 1000000000 AS BIGINT) END AS ttft_ns,
       CASE WHEN NOT failed THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       inputs[i] AS prompt_tokens,
       CASE WHEN NOT failed THEN outputs[i] END AS completion_tokens,
       CASE WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN failed THEN 'upstream' END AS error_kind,
       true AS streamed,
       CASE WHEN json_type(j->'$.max_concurrency') IN ('UBIGINT', 'BIGINT', 'INTEGER') THEN true END AS closed_loop
FROM v
