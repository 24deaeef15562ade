-- format: trtllm_bench
-- title: trtllm-bench --request_json
-- spec: NVIDIA/TensorRT-LLM tensorrt_llm/bench/dataclasses/statistics.py
-- source: trtllm-bench throughput|latency --request_json FILE
-- input: json
-- detect: start_timestamp, end_to_end_latency, time_to_first_token, num_input_tokens
-- clock: client monotonic clock: no time of day
-- resolution: 1ns
-- observer: client
-- observes: observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind, streamed
-- hint: the file names no replica and no time of day; use --streaming for TTFT
-- traps: nanoseconds ; -1 means that it never happened ; TTFT 0 is no first token, as without --streaming ; error_tokens above 0 is a failure
WITH f AS (
    SELECT line, record, ns_ns(j->>'$.end_to_end_latency') AS e2e, ns_ns(j->>'$.time_to_first_token') AS ttft, coalesce(TRY_CAST(j->>'$.error_tokens' AS BIGINT), 0) AS bad_tokens,
           to_count(j->>'$.num_input_tokens') AS prompt,
           CASE WHEN json_type(j->'$.output_tokens') = 'ARRAY' THEN json_array_length(j->'$.output_tokens')::BIGINT ELSE to_count(coalesce(j->>'$.num_output_tokens', j->>'$.output_tokens')) END AS answer
    FROM raw
), k AS (
    SELECT *, bad_tokens > 0 OR coalesce(e2e < 0, false) AS failed, CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad FROM f
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       -- -1 is a first token that never came
       CASE WHEN NOT failed THEN ttft_fault(nullif(ttft, -1), e2e) END AS note, 'client' AS observer,
       CASE WHEN NOT failed THEN e2e END AS e2e_ns,
       CASE WHEN NOT failed AND ttft > 0 AND ttft <= e2e THEN ttft END AS ttft_ns, CASE WHEN NOT failed AND ttft > 0 AND ttft <= e2e THEN 'first_token' END AS ttft_basis,
       CAST(1 AS BIGINT) AS resolution_ns, prompt AS prompt_tokens, CASE WHEN NOT failed THEN answer END AS completion_tokens,
       CASE WHEN failed THEN 'error' ELSE 'ok' END AS status, CASE WHEN failed THEN 'upstream' END AS error_kind, CASE WHEN ttft > 0 THEN true END AS streamed
FROM k
