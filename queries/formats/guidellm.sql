-- format: guidellm
-- title: GuideLLM benchmarks.json, both generations
-- spec: vllm-project/guidellm src/guidellm/schemas
-- source: guidellm benchmark --output-path benchmarks.json
-- input: json
-- detect: benchmarks
-- clock: client wall clock, epoch seconds
-- resolution: 1us
-- observer: client
-- observes: request_id, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status,
--   error_kind, streamed
-- hint: the whole report is needed: an export without requests is an aggregate
-- traps: latency in seconds beside fields in milliseconds ; incomplete requests are cut by the time limit: censored, not fast ; the client's
--   own queue is not the server's ; the first-token time may be missing, then TTFT is negative by 50 years ; a run
--   of fixed concurrency waits for answers: the field strategy says so
WITH b AS MATERIALIZED (
    -- the lists apart, so that no request carries the whole benchmark
    SELECT line, record, TRY_CAST(bench->'$.requests.successful' AS JSON[]) AS good, TRY_CAST(bench->'$.requests.errored' AS JSON[]) AS bad,
           TRY_CAST(bench->'$.requests.incomplete' AS JSON[]) AS cut,
           coalesce(bench->>'$.args.strategy.type_', bench->>'$.config.strategy.type_', bench->>'$.scheduler.strategy.type_') AS strategy
    FROM (SELECT line, record, unnest(TRY_CAST(j->'$.benchmarks' AS JSON[])) AS bench FROM raw)
), q AS MATERIALIZED (
    SELECT line, record, strategy, 'ok' AS state, unnest(good) AS r FROM b
    UNION ALL
    SELECT line, record, strategy, 'error', unnest(bad) FROM b
    UNION ALL
    SELECT line, record, strategy, 'censored', unnest(cut) FROM b
), f AS (
    SELECT *,
           s_ns(coalesce(r->>'$.scheduler_info.request_start', r->>'$.info.timings.request_start', r->>'$.request_start_time', r->>'$.start_time')) AS start_ns,
           s_ns(coalesce(r->>'$.scheduler_info.request_end', r->>'$.info.timings.request_end', r->>'$.request_end_time', r->>'$.end_time')) AS end_ns,
           s_ns(coalesce(r->>'$.first_token_time', r->>'$.info.timings.first_token_iteration', r->>'$.info.timings.first_iteration')) AS first_ns
    FROM q
), k AS (
    SELECT *, CASE WHEN start_ns IS NULL OR end_ns IS NULL THEN 'bad_time' WHEN end_ns < start_ns THEN 'negative_duration'
                   WHEN TRY(end_ns - start_ns) IS NULL OR end_ns - start_ns > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM f
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN state = 'ok' AND first_ns > 0 THEN ttft_fault(first_ns - start_ns, end_ns - start_ns) END AS note,
       to_text(r->>'$.request_id') AS request_id,
       'client' AS observer,
       start_ns AS arrival_ns,
       -- of a request cut by the time limit this is a lower bound
       CASE WHEN end_ns > start_ns AND state <> 'error' THEN end_ns - start_ns END AS e2e_ns,
       CASE WHEN state = 'ok' AND first_ns > start_ns AND first_ns <= end_ns THEN first_ns - start_ns END AS ttft_ns,
       CASE WHEN state = 'ok' AND first_ns > start_ns AND first_ns <= end_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000 AS BIGINT) AS resolution_ns,
       coalesce(to_count(r->>'$.prompt_tokens'), to_count(r->>'$.input_metrics.text_tokens'), to_count(r->>'$.input_metrics.total_tokens')) AS prompt_tokens,
       CASE WHEN state = 'ok' THEN coalesce(to_count(r->>'$.output_tokens'), to_count(r->>'$.output_metrics.text_tokens'),
                                            to_count(r->>'$.output_metrics.total_tokens')) END AS completion_tokens,
       state AS status,
       CASE state WHEN 'censored' THEN 'timeout' WHEN 'error' THEN 'upstream' END AS error_kind,
       CASE WHEN first_ns IS NOT NULL THEN true END AS streamed,
       CASE WHEN strategy IN ('concurrent', 'synchronous', 'throughput') THEN true WHEN strategy IN ('constant', 'poisson', 'async') THEN false END AS closed_loop
FROM k
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_requests' AS reason
FROM raw WHERE NOT EXISTS (FROM q WHERE q.line = raw.line AND q.record = raw.record)
