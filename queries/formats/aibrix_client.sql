-- format: aibrix_client
-- title: AIBrix benchmark client, output.jsonl
-- spec: vllm-project/aibrix benchmarks/client/client.py
-- source: python client.py --output-file-path output.jsonl (--streaming for TTFT)
-- input: json
-- detect: latency, throughput, prompt_tokens, output_tokens, total_tokens
-- clock: client monotonic clock: no time of day
-- resolution: 1us
-- observer: client
-- observes: request_id, turn_id, replica, observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status,
--   error_kind, streamed
-- hint: run with --streaming, else there is no TTFT; the pod is known only where the gateway returns the header target-pod
-- traps: failed rows have 0 tokens, which are unknown, and the time to the failure as latency ; tpot divides by all tokens, the first one
--   too ; start_time is a loop clock ; early files have neither time nor TTFT
WITH f AS (
    SELECT line, record, s_ns(j->>'$.latency') AS e2e, s_ns(j->>'$.ttft') AS ttft, coalesce(j->>'$.status', 'success') AS said,
           j->>'$.error_type' AS error, to_count(j->>'$.prompt_tokens') AS prompt, to_count(j->>'$.output_tokens') AS answer,
           j->>'$.target_pod' AS pod, j->>'$.request_id' AS id, j->>'$.session_id' AS session
    FROM raw
), k AS (
    SELECT *, word_class(said) = 'ok' AS good, coalesce(regexp_matches(error, '(?i)timeout'), false) AS late,
           CASE WHEN word_class(said) IS NULL THEN 'unknown_status' WHEN e2e IS NULL THEN 'no_duration'
                WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM f
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN good THEN ttft_fault(ttft, e2e) END AS note,
       to_text(id) AS request_id, to_text(session) AS turn_id, to_text(pod) AS replica, 'client' AS observer,
       CASE WHEN good OR e2e > 0 THEN e2e END AS e2e_ns,
       CASE WHEN good AND ttft > 0 AND ttft <= e2e THEN ttft END AS ttft_ns,
       CASE WHEN good AND ttft > 0 AND ttft <= e2e THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       CASE WHEN good THEN prompt END AS prompt_tokens, CASE WHEN good THEN answer END AS completion_tokens,
       CASE WHEN good THEN 'ok' WHEN late THEN 'censored' ELSE 'error' END AS status,
       CASE WHEN good THEN NULL WHEN late THEN 'timeout' ELSE 'upstream' END AS error_kind,
       CASE WHEN ttft > 0 THEN true END AS streamed
FROM k
