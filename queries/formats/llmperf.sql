-- format: llmperf
-- title: LLMPerf individual responses
-- spec: ray-project/llmperf src/llmperf/common_metrics.py
-- source: token_benchmark_ray.py --results-dir; the file *_individual_responses.json
-- input: json
-- detect: error_code, ttft_s, end_to_end_latency_s, number_output_tokens
-- clock: none: the file has durations only
-- resolution: 1us
-- observer: client
-- observes: observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind,
--   http_status, closed_loop
-- hint: no start times are written, so nothing can be said about load
-- traps: a failed request has latencies of 0 and one output token, which are unknown ; error -100 (too few tokens) has valid latencies ;
--   inter_token_latency_s is a mean in good rows and a sum in failed ones, so it is not used ; a closed loop hides the victims of a slow moment
WITH f AS (
    SELECT line, record, s_ns(j->>'$.end_to_end_latency_s') AS e2e, s_ns(j->>'$.ttft_s') AS ttft, TRY_CAST(j->>'$.error_code' AS INTEGER) AS code,
           (j->>'$.error_code') IS NOT NULL AS coded,
           to_count(j->>'$.number_input_tokens') AS prompt, to_count(j->>'$.number_output_tokens') AS answer
    FROM raw
), k AS (
    SELECT *, CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad,
           coalesce(e2e > 0 AND (NOT coded OR code = -100), false) AS good
    FROM f
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN good THEN ttft_fault(ttft, e2e) END AS note,
       'client' AS observer,
       nullif(e2e, 0) AS e2e_ns,
       CASE WHEN ttft > 0 AND ttft <= e2e THEN ttft END AS ttft_ns,
       CASE WHEN ttft > 0 AND ttft <= e2e THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       prompt AS prompt_tokens,
       CASE WHEN e2e > 0 THEN answer END AS completion_tokens,
       CASE WHEN good THEN 'ok' WHEN http_class(code) = 'censored' THEN 'censored' ELSE 'error' END AS status,
       CASE WHEN good THEN NULL ELSE coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       true AS closed_loop
FROM k
