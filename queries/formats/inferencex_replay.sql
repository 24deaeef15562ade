-- format: inferencex_replay
-- title: InferenceX agent trace replay, detailed_results.csv
-- spec: SemiAnalysisAI/InferenceX experimental/multiturn/vllm_benchmark
-- source: the tool's trace_replay/detailed_results.csv
-- input: csv
-- detect: ttlt, ttft, request_start_time, prefill_complete_time, request_complete_time, success
-- clock: client wall clock, epoch seconds
-- resolution: 1us
-- observer: client
-- observes: turn_id, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind,
--   streamed, closed_loop
-- hint: the file names no replica: run one file per replica, or join the router's log
-- traps: failed rows have ttft and ttlt 0, which are not times: their real duration is complete - start ; an answer without tokens has ttft 0
--   but a true ttlt ; rows are in order of completion ; trace_id is a whole session ; a user waits for the answer and then thinks, so
--   arrivals thin out when the service is slow
-- notes: no_token_streamed = answers that ended well without a streamed token
WITH f AS (
    SELECT line, record, to_bool(j->>'$.success') AS success,
           s_ns(exact_digits(j, '"request_start_time"\s*:\s*"?(-?[0-9.]+)', j->>'$.request_start_time')) AS start_ns,
           s_ns(exact_digits(j, '"request_complete_time"\s*:\s*"?(-?[0-9.]+)', j->>'$.request_complete_time')) AS end_ns,
           s_ns(j->>'$.ttft') AS ttft, s_ns(j->>'$.ttlt') AS ttlt, to_count(j->>'$.input_tokens') AS prompt,
           to_count(j->>'$.output_tokens_actual') AS answer, j->>'$.trace_id' AS trace, j->>'$.request_type' AS mode
    FROM raw
), u AS (
    SELECT *, CASE WHEN success THEN ttlt ELSE nullif(TRY(end_ns - start_ns), 0) END AS e2e FROM f
), k AS (
    SELECT *, success AND ttft > 0 AND ttft <= e2e AND answer IS DISTINCT FROM 0 AS has_first,
           CASE WHEN success IS NULL THEN 'unknown_status' WHEN start_ns IS NULL OR start_ns <= 0 THEN 'bad_time' WHEN success AND e2e IS NULL THEN 'no_duration'
                WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM u
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN success AND answer = 0 THEN 'no_token_streamed' WHEN success THEN ttft_fault(ttft, e2e) END AS note,
       to_text(trace) AS turn_id, 'client' AS observer, start_ns AS arrival_ns, e2e AS e2e_ns,
       CASE WHEN has_first THEN ttft END AS ttft_ns, CASE WHEN has_first THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns, prompt AS prompt_tokens, CASE WHEN success THEN answer END AS completion_tokens,
       CASE WHEN success THEN 'ok' ELSE 'error' END AS status, CASE WHEN NOT success THEN 'upstream' END AS error_kind,
       CASE WHEN mode = 'streaming' THEN true END AS streamed, true AS closed_loop
FROM k
