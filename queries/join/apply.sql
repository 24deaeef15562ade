-- name: join/apply
-- question: what do both observers together know of each attempt?
-- input: joined_attempt, attempt, join_found; $same (the inner observer stands at the same place as the outer one)
-- output: TEMP TABLE joined_attempt anew, with the attempts that only the inner observer saw.
-- Only durations cross over, never a time of day: the inner queue, prefill and decode lie somewhere inside the outer e2e, and what they
-- leave of it is the time between the two. A caller that hung up leaves an engine that ran on: its parts are taken as far as they fit.
-- An attempt that failed inside is not the one that the answer came from, whatever the outer row calls it: none of its parts are taken.
CREATE OR REPLACE TEMP TABLE joined_attempt AS
WITH pair AS (
    SELECT f.outer_row, o.replica AS outer_replica, i.*,
           coalesce(least(i.queue_ns, i.prefill_ns, i.decode_ns) >= 0, FALSE) AND (i.queue_ns IS NOT NULL OR i.prefill_ns IS NOT NULL)
               AND NOT (o.status = 'ok' AND i.status = 'error') AS timed,
           coalesce(i.queue_ns, 0) + coalesce(i.prefill_ns, 0) AS front_ns,
           coalesce(i.queue_ns, 0) + coalesce(i.prefill_ns, 0) + coalesce(i.decode_ns, 0) AS whole_ns,
           coalesce(o.e2e_ns, CASE WHEN $same THEN i.e2e_ns END) + coalesce(o.resolution_ns, 1) + coalesce(i.resolution_ns, 1) AS room_ns
    FROM join_found f
    JOIN joined_attempt o ON o.attempt_row = f.outer_row
    JOIN attempt i ON i.rowid = f.inner_row
    WHERE f.verdict = 'joined'
),
-- a name that stands for several inner ones is a pool; one in twenty may be a mistake
place AS (
    SELECT outer_replica, arg_max(inner_replica, calls) AS inner_replica, max(calls) < 0.95 * sum(calls) AS is_pool
    FROM (SELECT outer_replica, replica AS inner_replica, count(*) AS calls FROM pair
          WHERE outer_replica IS NOT NULL AND replica IS NOT NULL GROUP BY ALL)
    GROUP BY outer_replica
),
outer_name AS (
    SELECT inner_replica, min(outer_replica) AS outer_replica FROM place WHERE NOT is_pool GROUP BY inner_replica HAVING count(*) = 1
)
SELECT o.* REPLACE (
    CASE WHEN l.is_pool THEN p.replica ELSE coalesce(o.replica, p.replica) END AS replica,
    coalesce(o.pool, CASE WHEN l.is_pool THEN o.replica END, p.pool) AS pool,
    coalesce(o.model, p.model) AS model,
    coalesce(o.route, p.route) AS route,
    coalesce(o.provider, p.provider) AS provider,
    coalesce(o.segment, p.segment) AS segment,
    coalesce(o.turn_id, p.turn_id) AS turn_id,
    CASE WHEN $same THEN coalesce(o.e2e_ns, p.e2e_ns) ELSE o.e2e_ns END AS e2e_ns,
    CASE WHEN o.ttft_ns IS NOT NULL AND o.ttft_basis IS DISTINCT FROM 'first_byte' THEN o.ttft_ns
         WHEN p.ttft_ns <= p.room_ns THEN p.ttft_ns ELSE o.ttft_ns END AS ttft_ns,
    CASE WHEN o.ttft_ns IS NOT NULL AND o.ttft_basis IS DISTINCT FROM 'first_byte' THEN o.ttft_basis
         WHEN p.ttft_ns <= p.room_ns THEN CASE WHEN $same THEN p.ttft_basis ELSE 'engine' END ELSE o.ttft_basis END AS ttft_basis,
    CASE WHEN p.timed AND p.front_ns <= p.room_ns THEN p.queue_ns ELSE o.queue_ns END AS queue_ns,
    CASE WHEN p.timed AND p.front_ns <= p.room_ns THEN p.queue_basis ELSE o.queue_basis END AS queue_basis,
    CASE WHEN p.timed AND p.front_ns <= p.room_ns THEN p.prefill_ns ELSE o.prefill_ns END AS prefill_ns,
    CASE WHEN p.timed AND p.front_ns <= p.room_ns THEN p.prefill_basis ELSE o.prefill_basis END AS prefill_basis,
    CASE WHEN p.timed AND p.whole_ns <= p.room_ns AND p.decode_ns IS NOT NULL THEN p.decode_ns ELSE o.decode_ns END AS decode_ns,
    CASE WHEN p.timed AND p.whole_ns <= p.room_ns AND p.decode_ns IS NOT NULL THEN p.decode_basis ELSE o.decode_basis END AS decode_basis,
    coalesce(o.tool_wait_ns, p.tool_wait_ns) AS tool_wait_ns,
    CASE WHEN o.tool_wait_ns IS NULL THEN p.tool_wait_basis ELSE o.tool_wait_basis END AS tool_wait_basis,
    greatest(o.resolution_ns, p.resolution_ns) AS resolution_ns,
    coalesce(o.prompt_tokens, p.prompt_tokens) AS prompt_tokens,
    coalesce(o.cached_tokens, CASE WHEN p.cached_tokens <= coalesce(o.prompt_tokens, p.cached_tokens) THEN p.cached_tokens END) AS cached_tokens,
    coalesce(o.completion_tokens, p.completion_tokens) AS completion_tokens,
    coalesce(o.reasoning_tokens, p.reasoning_tokens) AS reasoning_tokens,
    coalesce(o.request_bytes, p.request_bytes) AS request_bytes,
    coalesce(o.response_bytes, p.response_bytes) AS response_bytes,
    coalesce(o.http_status, p.http_status) AS http_status,
    coalesce(o.cache_hit, p.cache_hit) AS cache_hit,
    coalesce(o.streamed, p.streamed) AS streamed,
    coalesce(o.tools_offered, p.tools_offered) AS tools_offered,
    coalesce(o.tool_names, p.tool_names) AS tool_names,
    coalesce(o.stored_state, p.stored_state) AS stored_state,
    coalesce(o.batch, p.batch) AS batch,
    coalesce(o.n_choices, p.n_choices) AS n_choices,
    coalesce(o.cost, p.cost) AS cost,
    CASE WHEN o.cost IS NULL THEN coalesce(p.currency, o.currency) ELSE o.currency END AS currency
)
FROM joined_attempt o
LEFT JOIN pair p ON p.outer_row = o.attempt_row
LEFT JOIN place l ON l.outer_replica = o.replica
UNION ALL BY NAME
-- When such an attempt was sent the outer clock does not say: it stands at the arrival of its request, a nanosecond behind the row it
-- belongs to so that it is never taken for the first. Its length is known, but the answer was not the caller's.
SELECT b.* REPLACE (
    i.rowid AS attempt_row, i.file_id AS file_id, i.line AS line, i.record AS record, i.attempt_id AS attempt_id, NULL AS attempt_no,
    CASE WHEN i.status = 'error' THEN 'retry' ELSE 'hedge' END AS cause,
    i.content_hash AS content_hash,
    CASE WHEN n.outer_replica IS NOT NULL THEN n.outer_replica ELSE i.replica END AS replica,
    coalesce(i.pool, b.pool) AS pool,
    b.arrival_ns + 1 AS arrival_ns, i.e2e_ns AS e2e_ns,
    i.ttft_ns AS ttft_ns, CASE WHEN i.ttft_ns IS NOT NULL THEN 'engine' END AS ttft_basis, NULL AS headers_ns,
    i.queue_ns AS queue_ns, i.queue_basis AS queue_basis, i.prefill_ns AS prefill_ns, i.prefill_basis AS prefill_basis,
    i.decode_ns AS decode_ns, i.decode_basis AS decode_basis, NULL AS tool_wait_ns, NULL AS tool_wait_basis,
    greatest(b.resolution_ns, i.resolution_ns) AS resolution_ns,
    coalesce(i.prompt_tokens, b.prompt_tokens) AS prompt_tokens, i.cached_tokens AS cached_tokens,
    i.completion_tokens AS completion_tokens, i.reasoning_tokens AS reasoning_tokens, NULL AS response_bytes,
    CASE WHEN i.status = 'error' THEN 'error' ELSE 'censored' END AS status,
    i.http_status AS http_status,
    CASE WHEN i.status = 'error' THEN coalesce(i.error_kind, 'upstream') ELSE 'loser' END AS error_kind,
    FALSE AS won, i.cost AS cost, coalesce(i.currency, b.currency) AS currency
)
FROM join_found f
JOIN joined_attempt b ON b.attempt_row = f.outer_row
JOIN attempt i ON i.rowid = f.inner_row
LEFT JOIN outer_name n ON n.inner_replica = i.replica
WHERE f.verdict = 'copy'
