-- format: inference_perf
-- title: inference-perf per_request_lifecycle_metrics.json
-- spec: kubernetes-sigs/inference-perf inference_perf/apis/base.py
-- source: inference-perf with report.request_lifecycle.per_request: true
-- input: json
-- detect: start_time, end_time, info, request|request_data, response|response_data
-- clock: client monotonic clock: no time of day
-- resolution: 1us
-- observer: client
-- observes: observer, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, error_kind, http_status, streamed
-- hint: times are of a monotonic clock, so the hour of a request is unknown; TTFT needs streaming
-- traps: a failed request has 0 input tokens, which are unknown ; its duration is real but not a latency ; rows are not in start order ;
--   where a scheduled time is written, latency counts from it
WITH f AS (
    SELECT line, record, j->'$.info' AS info,
           s_ns(coalesce(j->>'$.scheduled_time', j->>'$.start_time')) AS planned_ns, s_ns(j->>'$.end_time') AS end_ns,
           s_ns(coalesce(j->>'$.info.response_metrics.output_token_times[0]', j->>'$.info.output_token_times[0]')) AS first_ns,
           coalesce(json_type(j->'$.error') = 'OBJECT', false) AS failed,
           j->>'$.error.error_type' AS error
    FROM raw
), u AS (
    SELECT *, TRY(end_ns - planned_ns) AS span_ns, failed AND coalesce(error = 'TimeoutError', false) AS late,
           failed AND coalesce(error IN ('ClientPayloadError', 'ServerDisconnectedError', 'CancelledError'), false) AS cut,
           TRY_CAST(nullif(regexp_extract(error, '^HTTP Error (\d{3})$', 1), '') AS INTEGER) AS code
    FROM f
), k AS (
    SELECT *, CASE WHEN span_ns IS NULL THEN 'bad_time' WHEN span_ns < 0 THEN 'negative_duration' WHEN span_ns > 86400000000000 THEN 'duration_out_of_range' END AS bad,
           NOT failed AND first_ns > planned_ns AND first_ns <= end_ns AS has_first
    FROM u
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN NOT failed THEN ttft_fault(TRY(first_ns - planned_ns), span_ns) END AS note,
       'client' AS observer,
       -- a failure's duration is real but no latency; a timeout's or a cut stream's is a lower bound
       CASE WHEN NOT failed OR late OR cut THEN span_ns END AS e2e_ns,
       CASE WHEN has_first THEN TRY(first_ns - planned_ns) END AS ttft_ns,
       CASE WHEN has_first THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       nullif(coalesce(to_count(info->>'$.request_metrics.text.input_tokens'), to_count(info->>'$.input_tokens')), 0) AS prompt_tokens,
       CASE WHEN NOT failed THEN to_count(coalesce(info->>'$.response_metrics.output_tokens', info->>'$.output_tokens')) END AS completion_tokens,
       CASE WHEN NOT failed THEN 'ok' WHEN late OR cut THEN 'censored' ELSE 'error' END AS status,
       CASE WHEN NOT failed THEN NULL WHEN late THEN 'timeout' WHEN cut THEN 'cut_stream' ELSE coalesce(http_kind(code), 'upstream') END AS error_kind,
       CASE WHEN failed THEN code END AS http_status,
       CASE WHEN first_ns IS NOT NULL THEN true END AS streamed
FROM k
