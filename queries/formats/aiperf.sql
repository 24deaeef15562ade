-- format: aiperf
-- title: AIPerf profile_export.jsonl, one line a request
-- spec: ai-dynamo/aiperf src/aiperf/common/models/record_models.py
-- source: aiperf profile --export-level records; the file profile_export.jsonl
-- input: json
-- detect: metadata, metrics, /record_processor_id/, !resourceSpans
-- clock: client wall clock, epoch nanoseconds
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, turn_id, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns, resolution_ns, prompt_tokens,
--   completion_tokens, status, http_status, error_kind, streamed
-- hint: give each replica its own run: the file names no replica
-- traps: metrics carry their own unit, which is read ; warm-up lines stand in the same file and are not requests ; an HTTP error has end = start,
--   which is not a time ; a cancelled line has a real, censored duration ; lines are not in start order ; the older schema names other fields
WITH m AS (
    SELECT line, record, j->'$.metadata' AS meta, j->'$.metrics' AS metrics, j->'$.error' AS error FROM raw
), f AS (
    SELECT *,
           coalesce(meta->>'$.benchmark_phase', meta->>'$.credit_phase') AS phase,
           ns_ns(coalesce(meta->>'$.request_start_ns', meta->>'$.timestamp_ns')) AS start_ns,
           ns_ns(meta->>'$.request_ack_ns') AS ack_ns,
           ns_ns(meta->>'$.request_end_ns') AS end_ns,
           ns_ns(meta->>'$.cancellation_time_ns') AS cancelled_ns,
           duration_ns((metrics->>'$.request_latency.value') || (metrics->>'$.request_latency.unit')) AS latency_ns,
           duration_ns(coalesce(metrics->>'$.time_to_first_token.value', metrics->>'$.ttft.value')
                       || coalesce(metrics->>'$.time_to_first_token.unit', metrics->>'$.ttft.unit')) AS ttft_raw,
           coalesce(metrics->>'$.time_to_first_token.value', metrics->>'$.ttft.value') IS NOT NULL AS has_first,
           error IS NOT NULL AND json_type(error) = 'OBJECT' AS failed,
           to_bool(meta->>'$.was_cancelled') IS TRUE OR (error->>'$.type') = 'RequestCancellationError' AS cancelled
    FROM m
)
SELECT line, record,
       CASE WHEN meta IS NULL OR metrics IS NULL THEN 'reject' WHEN phase = 'warmup' THEN 'not_request'
            WHEN start_ns IS NULL THEN 'reject' ELSE 'attempt' END AS kind,
       CASE WHEN meta IS NULL OR metrics IS NULL THEN 'not_a_record' WHEN phase = 'warmup' THEN 'warmup' WHEN start_ns IS NULL THEN 'bad_time' END AS reason,
       -- a negative one is no duration
       CASE WHEN NOT failed THEN CASE WHEN has_first AND ttft_raw IS NULL THEN 'ttft_unreadable' ELSE ttft_fault(ttft_raw, latency_ns) END END AS note,
       to_text(meta->>'$.x_request_id') AS request_id,
       to_text(meta->>'$.x_request_id') AS attempt_id,
       to_text(meta->>'$.x_correlation_id') AS turn_id,
       'client' AS observer,
       start_ns AS arrival_ns,
       -- a failed line has no latency; only a cancelled one has a duration, and that is a lower bound
       CASE WHEN NOT failed THEN latency_ns WHEN cancelled AND cancelled_ns > start_ns THEN cancelled_ns - start_ns END AS e2e_ns,
       CASE WHEN NOT failed AND ttft_raw > 0 AND ttft_raw <= coalesce(latency_ns, ttft_raw) THEN ttft_raw END AS ttft_ns,
       CASE WHEN NOT failed AND ttft_raw > 0 AND ttft_raw <= coalesce(latency_ns, ttft_raw) THEN 'first_token' END AS ttft_basis,
       CASE WHEN ack_ns > start_ns THEN ack_ns - start_ns END AS headers_ns,
       CAST(1000 AS BIGINT) AS resolution_ns,
       coalesce(to_count(metrics->>'$.usage_prompt_tokens.value'), to_count(metrics->>'$.input_sequence_length.value'),
                to_count(metrics->>'$.error_isl.value')) AS prompt_tokens,
       coalesce(to_count(metrics->>'$.usage_completion_tokens.value'), to_count(metrics->>'$.output_sequence_length.value')) AS completion_tokens,
       CASE WHEN cancelled THEN 'censored' WHEN failed THEN 'error' ELSE 'ok' END AS status,
       CASE WHEN cancelled THEN 'client_gone' WHEN failed THEN coalesce(http_kind(TRY_CAST(error->>'$.code' AS INTEGER)), 'upstream') END AS error_kind,
       CASE WHEN failed THEN TRY_CAST(error->>'$.code' AS INTEGER) END AS http_status,
       CASE WHEN ttft_raw IS NOT NULL THEN true END AS streamed
FROM f
