-- format: agent_spans
-- title: hedgectl's own form of an agent's request: one object with its model calls and tools as spans
-- spec: README, section formats
-- source: write one object a request of your agent: request_id, start, end, and spans of kind llm or tool with start_ms and end_ms counted from start
-- input: json
-- detect: start, end, spans, !spans.0.traceId, /"spans"/, /"kind"\s*:\s*"(llm|tool)"/, /"start_ms"/
-- clock: wall clock of the agent; spans count from its start
-- resolution: 1ms
-- observer: client
-- observes: request_id, turn_id, replica, model, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, status, http_status, error_kind, streamed, weight
-- hint: a copy is sent of a model call, never of the whole request: hedgectl sql turns says how much of each is waiting for tools
-- traps: tools overlap, so their times do not add up: the wait is the union of the tools less the union of the calls ; a call is a request of
--   its own, numbered within the agent's
WITH a AS (
    SELECT line, record, j->>'$.request_id' AS id, j->>'$.model' AS model, j->>'$.status' AS status,
           j->>'$.start' AS start_s, time_ns(j->>'$.start') AS start_ns, time_ns(j->>'$.end') AS end_ns,
           coalesce(TRY_CAST(j->'$.spans' AS JSON[]), []) AS spans
    FROM raw
), s AS (
    SELECT * EXCLUDE (spans), unnest(spans) AS span, generate_subscripts(spans, 1) AS number FROM a WHERE start_ns IS NOT NULL
), t AS (
    SELECT line, record, coalesce(id, 'line ' || line || '/' || record) AS turn_id, start_s, number, span->>'$.kind' AS role, span->>'$.name' AS name,
           coalesce(span->>'$.model', model) AS model, span->>'$.replica' AS replica,
           start_ns + ms_ns(span->>'$.start_ms') AS low, start_ns + ms_ns(span->>'$.end_ms') AS high,
           ms_ns(span->>'$.ttft_ms') AS ttft, ms_ns(span->>'$.queue_ms') AS queue,
           to_count(span->>'$.prompt_tokens') AS prompt_tokens, to_count(span->>'$.cached_tokens') AS cached_tokens,
           to_count(span->>'$.completion_tokens') AS completion_tokens, coalesce(span->>'$.status', 'ok') AS said
    FROM s
), c AS (
    SELECT *, TRY_CAST(said AS INTEGER) AS code,
           CASE WHEN low IS NULL OR high IS NULL THEN 'bad_time' WHEN high < low THEN 'negative_duration'
                WHEN high - low > 86400000000000 THEN 'duration_out_of_range' END AS fault
    FROM t
)
SELECT line, record, CASE WHEN fault IS NOT NULL THEN 'reject' WHEN role = 'llm' THEN 'attempt' WHEN role = 'tool' THEN 'tool' ELSE 'not_request' END AS kind,
       CASE WHEN fault IS NOT NULL THEN fault WHEN role IN ('llm', 'tool') THEN NULL ELSE 'other_span' END AS reason,
       nullif(concat_ws(',', CASE WHEN is_naive(start_s) THEN 'naive_time' END,
           CASE WHEN role = 'llm' AND ttft = 0 THEN 'ttft_zero' WHEN role = 'llm' THEN ttft_fault(ttft, high - low) END,
           CASE WHEN role = 'llm' THEN part_fault(queue, high - low) END), '') AS note,
       CASE WHEN role = 'llm' THEN turn_id || '#' || number END AS request_id, turn_id, replica, model, 'client' AS observer,
       low AS arrival_ns, high - low AS e2e_ns,
       CASE WHEN ttft > 0 AND ttft <= high - low THEN ttft END AS ttft_ns,
       CASE WHEN ttft > 0 AND ttft <= high - low THEN 'first_token' END AS ttft_basis,
       CASE WHEN queue >= 0 AND queue <= high - low THEN queue END AS queue_ns,
       CASE WHEN queue >= 0 AND queue <= high - low THEN 'measured' END AS queue_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns, prompt_tokens, cached_tokens, completion_tokens,
       coalesce(CASE WHEN code IS NOT NULL THEN http_class(code) ELSE word_class(said) END, 'error') AS status,
       CASE WHEN code BETWEEN 100 AND 599 THEN code END AS http_status,
       CASE WHEN code IS NOT NULL THEN CASE WHEN http_class(code) <> 'ok' THEN http_kind(code) END ELSE CASE WHEN word_class(said) <> 'ok' THEN word_kind(said) END END AS error_kind,
       CASE WHEN ttft IS NOT NULL THEN true END AS streamed, CASE WHEN role = 'tool' THEN name END AS tool_names, CAST(1 AS DOUBLE) AS weight
FROM c
UNION ALL BY NAME
-- the agent's own span bounds its turn; it is no request by itself
SELECT line, record, 'agent' AS kind, 'turn_span' AS reason, coalesce(id, 'line ' || line || '/' || record) AS turn_id, start_ns AS arrival_ns, end_ns - start_ns AS e2e_ns
FROM a WHERE start_ns IS NOT NULL AND end_ns >= start_ns AND len(spans) > 0
UNION ALL BY NAME
SELECT line, record, CASE WHEN len(spans) = 0 THEN 'not_request' ELSE 'reject' END AS kind, CASE WHEN len(spans) = 0 THEN 'no_span' ELSE 'bad_time' END AS reason
FROM a WHERE start_ns IS NULL OR len(spans) = 0
