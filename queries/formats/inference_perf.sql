-- format: inference_perf
-- title: inference-perf per_request_lifecycle_metrics.json
-- spec: kubernetes-sigs/inference-perf inference_perf/apis/base.py
-- source: inference-perf with report.request_lifecycle.per_request: true
-- input: json
-- detect: start_time, end_time, info, request|request_data, response|response_data
-- clock: client monotonic clock: no time of day
-- resolution: 1us
-- observer: client
-- observes: observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind, streamed
-- hint: times are of a monotonic clock, so the hour of a request is unknown; TTFT needs streaming
-- traps: a failed request has 0 input tokens, which are unknown ; its duration is real but not a latency ; rows are not in start order ;
--   where a scheduled time is written, latency counts from it
WITH f AS (
    SELECT line, record, j, j->'$.info' AS info,
           s_ns(coalesce(j->>'$.scheduled_time', j->>'$.start_time')) AS planned_ns, s_ns(j->>'$.end_time') AS end_ns,
           s_ns(coalesce(j->>'$.info.response_metrics.output_token_times[0]', j->>'$.info.output_token_times[0]')) AS first_ns,
           json_type(j->'$.error') = 'OBJECT' AS failed
    FROM raw
)
SELECT line, record,
       CASE WHEN planned_ns IS NULL OR end_ns IS NULL OR end_ns < planned_ns THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN planned_ns IS NULL OR end_ns IS NULL THEN 'bad_time' WHEN end_ns < planned_ns THEN 'negative_duration' END AS reason,
       'client' AS observer,
       CASE WHEN NOT coalesce(failed, false) OR (j->>'$.error.error_type') = 'TimeoutError' THEN end_ns - planned_ns END AS e2e_ns,
       CASE WHEN NOT coalesce(failed, false) AND first_ns BETWEEN planned_ns AND end_ns THEN first_ns - planned_ns END AS ttft_ns,
       CASE WHEN NOT coalesce(failed, false) AND first_ns BETWEEN planned_ns AND end_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       nullif(coalesce(to_count(info->>'$.request_metrics.text.input_tokens'), to_count(info->>'$.input_tokens')), 0) AS prompt_tokens,
       CASE WHEN NOT coalesce(failed, false) THEN to_count(coalesce(info->>'$.response_metrics.output_tokens', info->>'$.output_tokens')) END AS completion_tokens,
       CASE WHEN NOT coalesce(failed, false) THEN 'ok' WHEN (j->>'$.error.error_type') = 'TimeoutError' THEN 'censored' ELSE 'error' END AS status,
       CASE WHEN NOT coalesce(failed, false) THEN NULL WHEN (j->>'$.error.error_type') = 'TimeoutError' THEN 'timeout' ELSE 'upstream' END AS error_kind,
       CASE WHEN first_ns IS NOT NULL THEN true END AS streamed
FROM f
