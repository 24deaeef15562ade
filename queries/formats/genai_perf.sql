-- format: genai_perf
-- title: GenAI-Perf and perf_analyzer, profile_export.json
-- spec: triton-inference-server/perf_analyzer src/profile_data_exporter.cc
-- source: genai-perf profile ...; the file profile_export.json
-- input: json
-- detect: experiments, /"response_timestamps"/
-- clock: client wall clock, epoch nanoseconds
-- resolution: 1ns
-- observer: client
-- observes: request_id, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, status, error_kind, streamed, closed_loop
-- hint: tokens are not counted in this file: keep usage in the responses and read it elsewhere, or join the engine's log
-- traps: nanoseconds of 19 digits, which a double cannot hold ; empty and [DONE] responses at the end have times too: the last one before them counts ; the
--   first chunk of a chat names the role only and is no token ; a request without responses failed and its duration is unknown ; concurrency mode waits for answers
WITH e AS (
    SELECT line, record, unnest(TRY_CAST(j->'$.experiments' AS JSON[])) AS x FROM raw
), q AS (
    SELECT line, record, mode, run, unnest(requests) AS r, generate_subscripts(requests, 1) AS i
    FROM (SELECT line, record, mode, run_of(mode, list_transform(requests, lambda r: r->>'$.timestamp'), NULL, NULL) AS run, requests
          FROM (SELECT line, record, x->>'$.experiment.mode' AS mode, TRY_CAST(x->'$.requests' AS JSON[]) AS requests FROM e))
), f AS (
    SELECT *, ns_ns(r->>'$.timestamp') AS start_ns, TRY_CAST(r->'$.response_timestamps' AS BIGINT[]) AS stamps,
           TRY_CAST(r->'$.response_outputs' AS JSON[]) AS outputs
    FROM q
), s AS (
    SELECT *, list_filter(stamps, lambda t, i: outputs[i] IS NULL
               OR NOT coalesce(regexp_matches(trim(coalesce(json_extract_string(outputs[i], '$.response'), 'x')), '^(|(data: )?\[DONE\])$'), false)) AS kept,
           -- where no chunk speaks, the texts were taken out
           list_filter(stamps, lambda t, i: chunk_speaks(outputs[i]->>'$.response') AND trim(outputs[i]->>'$.response') NOT IN ('', '[DONE]', 'data: [DONE]')) AS spoken
    FROM f
), k AS (
    SELECT *, TRY(list_max(kept) - start_ns) AS e2e, TRY(coalesce(list_min(spoken), list_min(kept)) - start_ns) AS first, coalesce(len(kept), 0) AS n,
           coalesce(regexp_matches(outputs[1]->>'$.response', '^\s*(data: )?\{\s*"error"'), false) AS failed
    FROM s
), d AS (
    SELECT *, CASE WHEN start_ns IS NULL OR start_ns <= 0 THEN 'bad_time' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad FROM k
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       CASE WHEN n > 1 AND NOT failed THEN ttft_fault(first, e2e) END AS note,
       -- no id is written: the run's own values and the position in it
       run || '-' || (i - 1) AS request_id, 'client' AS observer, start_ns AS arrival_ns, CASE WHEN NOT failed THEN e2e END AS e2e_ns,
       -- one response is a whole answer: its first token is unknown
       CASE WHEN n > 1 AND NOT failed AND first > 0 AND first <= e2e THEN first END AS ttft_ns, CASE WHEN n > 1 AND NOT failed AND first > 0 AND first <= e2e THEN 'first_token' END AS ttft_basis,
       CAST(1 AS BIGINT) AS resolution_ns, CASE WHEN n = 0 OR failed THEN 'error' ELSE 'ok' END AS status, CASE WHEN n = 0 OR failed THEN 'upstream' END AS error_kind,
       CASE WHEN n > 1 THEN true END AS streamed, CASE mode WHEN 'concurrency' THEN true WHEN 'request_rate' THEN false END AS closed_loop
FROM d
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'no_requests' AS reason FROM raw WHERE NOT EXISTS (FROM q WHERE q.line = raw.line AND q.record = raw.record)
