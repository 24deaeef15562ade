-- format: sglang_bench
-- title: SGLang bench_serving, --output-details
-- spec: sglang/bench_serving.py
-- source: python -m sglang.bench_serving --output-file FILE --output-details
-- input: json
-- detect: input_lens, output_lens, ttfts, itls, !num_prompts, !start_times, !endpoint_type
-- clock: none: the file has durations only
-- resolution: 1us
-- observer: client
-- observes: request_id, observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind, streamed
-- hint: no start times are written, so nothing can be said about load; without --output-details the line is an aggregate
-- traps: one file can hold several runs, a line each ; e2e = ttft + sum(itls) ; a failed request has ttft 0 ; a bare Infinity as request rate is no JSON
WITH d AS (
    SELECT line, record, j, CAST(j->'$.ttfts' AS DECIMAL(28, 9)[]) AS ttfts, CAST(j->'$.itls' AS DECIMAL(28, 9)[][]) AS itls,
           CAST(j->'$.errors' AS VARCHAR[]) AS errors, CAST(j->'$.input_lens' AS BIGINT[]) AS inputs, CAST(j->'$.output_lens' AS BIGINT[]) AS outputs
    FROM raw
), r AS (
    SELECT *, unnest(range(1, len(ttfts) + 1)) AS i FROM d
), v AS (
    SELECT *, ttfts[i] AS ttft, ttfts[i] + coalesce(list_sum(itls[i]), 0) AS latency, coalesce(errors[i], '') <> '' OR ttfts[i] = 0 AS failed FROM r
)
SELECT line, record, 'attempt' AS kind, NULL AS reason,
       -- no id is written: the run's own content and the position in it
       left(md5(CAST(j AS VARCHAR)), 12) || '-' || (i - 1) AS request_id,
       'client' AS observer,
       CASE WHEN NOT failed THEN CAST(latency * 1000000000 AS BIGINT) END AS e2e_ns,
       -- a run with --disable-stream writes the whole latency as ttft
       CASE WHEN NOT failed AND len(itls[i]) > 0 THEN CAST(ttft * 1000000000 AS BIGINT) END AS ttft_ns,
       CASE WHEN NOT failed AND len(itls[i]) > 0 THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       inputs[i] AS prompt_tokens,
       CASE WHEN NOT failed THEN outputs[i] END AS completion_tokens,
       CASE WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN failed THEN 'upstream' END AS error_kind,
       CASE WHEN len(itls[i]) > 0 THEN true END AS streamed
FROM v
