-- format: sglang_bench
-- title: SGLang bench_serving, --output-details
-- spec: sglang/bench_serving.py
-- source: python -m sglang.bench_serving --output-file FILE --output-details
-- input: json
-- detect: input_lens, output_lens, ttfts, itls, !num_prompts, !start_times, !endpoint_type
-- clock: none: the file has durations only
-- resolution: 1us
-- observer: client
-- observes: request_id, observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind, streamed,
--   closed_loop
-- hint: no start times are written, so nothing can be said about load; without --output-details the line is an aggregate
-- traps: one file can hold several runs, a line each ; e2e = ttft + sum(itls) ; a failed request has ttft 0 ; a bare Infinity as request rate is no JSON
WITH d AS (
    SELECT line, record, TRY_CAST(j->'$.ttfts' AS DECIMAL(28, 9)[]) AS ttfts, TRY_CAST(j->'$.itls' AS DECIMAL(28, 9)[][]) AS itls,
           TRY_CAST(j->'$.errors' AS VARCHAR[]) AS errors, TRY_CAST(j->'$.input_lens' AS BIGINT[]) AS inputs, TRY_CAST(j->'$.output_lens' AS BIGINT[]) AS outputs,
           CASE WHEN json_exists(j, '$.max_concurrency') THEN coalesce(TRY_CAST(j->>'$.max_concurrency' AS DOUBLE) > 0, false) END AS closed, CAST(s_ns(j->>'$.duration') AS VARCHAR) AS run
    FROM raw
), r AS (
    -- the arrays side by side, so that no row carries all of them
    SELECT line, record, closed, run_of(run, ttfts, inputs, outputs) AS run, unnest(CASE WHEN len(ttfts) > 0 THEN range(1, len(ttfts) + 1) ELSE [0] END) AS i, unnest(ttfts) AS ttft,
           unnest(itls[:len(ttfts)]) AS gaps, nullif(unnest(errors[:len(ttfts)]), '') AS error, unnest(inputs[:len(ttfts)]) AS input, unnest(outputs[:len(ttfts)]) AS output
    FROM d
), v AS (
    SELECT *, coalesce(len(gaps) > 0, false) AS streamed, TRY_CAST(TRY(ttft + coalesce(list_sum(gaps), 0)) * 1000000000 AS BIGINT) AS latency_ns,
           TRY_CAST(ttft * 1000000000 AS BIGINT) AS first_ns
    FROM r
), u AS (
    SELECT *, coalesce(error IS NOT NULL OR NOT first_ns > 0, false) AS failed, error IS NOT NULL AND regexp_matches(error, '(?i)time.?out|timed out') AS late FROM v
), k AS (
    SELECT *, CASE WHEN i = 0 THEN 'no_arrays' WHEN failed THEN NULL WHEN latency_ns IS NULL THEN 'no_duration'
                   WHEN latency_ns < 0 THEN 'negative_duration' WHEN latency_ns > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM u
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       -- no id is written: the run's own values and the position in it
       run || '-' || (i - 1) AS request_id,
       'client' AS observer,
       CASE WHEN NOT failed THEN latency_ns END AS e2e_ns,
       -- a run with --disable-stream writes the whole latency as ttft
       CASE WHEN NOT failed AND streamed AND first_ns > 0 AND first_ns <= latency_ns THEN first_ns END AS ttft_ns,
       CASE WHEN NOT failed AND streamed AND first_ns > 0 AND first_ns <= latency_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       CASE WHEN input >= 0 THEN input END AS prompt_tokens,
       CASE WHEN NOT failed AND output >= 0 THEN output END AS completion_tokens,
       CASE WHEN late THEN 'censored' WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN late THEN 'timeout' WHEN failed THEN 'upstream' END AS error_kind,
       CASE WHEN streamed THEN true END AS streamed,
       closed AS closed_loop
FROM k
