-- name: decompose/request
-- question: what did each caller see, from the first send to the last byte of the answer that counted?
-- input: selected_attempt
-- output: TEMP TABLE request, one row a logical request. The winner is the first success by end time; without one the
--         request ends with its last attempt: an error, or censored if that attempt was (hang-up, timeout).
CREATE OR REPLACE TEMP TABLE request AS
WITH folded AS (
    SELECT request_key,
           count(*) AS attempts,
           count(*) FILTER (cause = 'hedge') AS hedges,
           count(*) FILTER (cause = 'retry') AS retries,
           min(arrival_ns) AS arrival_ns,
           max(end_ns) AS last_end_ns,
           arg_max(status, coalesce(end_ns, arrival_ns)) AS last_status,
           sum(cost) FILTER (cost >= 0) AS cost,
           max(turn_id) AS turn_id
    FROM selected_attempt GROUP BY request_key HAVING count(*) > 1
)
SELECT p.request_key, p.request_id, p.format, p.generation, coalesce(p.turn_id, f.turn_id) AS turn_id,
       coalesce(p.model, w.model) AS model, coalesce(p.route, w.route) AS route, coalesce(p.segment, w.segment) AS segment,
       coalesce(w.provider, p.provider) AS provider,
       CASE WHEN w.request_key IS NULL THEN p.pool ELSE w.pool END AS pool,
       CASE WHEN w.request_key IS NULL THEN p.replica ELSE w.replica END AS replica,
       p.observer,
       coalesce(f.arrival_ns, p.arrival_ns) AS arrival_ns,
       CASE WHEN f.request_key IS NULL THEN p.e2e_ns ELSE coalesce(w.end_ns, f.last_end_ns) - f.arrival_ns END AS e2e_ns,
       CASE WHEN f.request_key IS NULL THEN p.ttft_ns ELSE w.arrival_ns + w.ttft_ns - f.arrival_ns END AS ttft_ns,
       CASE WHEN w.ttft_ns IS NOT NULL THEN coalesce(w.ttft_basis, 'first_token') END AS ttft_basis,
       CASE WHEN f.request_key IS NULL THEN p.headers_ns ELSE w.arrival_ns + w.headers_ns - f.arrival_ns END AS headers_ns,
       CASE WHEN w.request_key IS NOT NULL THEN 'ok' ELSE coalesce(f.last_status, p.status) END AS status,
       coalesce(f.attempts, 1) AS attempts, coalesce(f.hedges, 0) AS hedges, coalesce(f.retries, 0) AS retries,
       coalesce(w.cause = 'hedge', FALSE) AS hedge_won,
       p.replica AS primary_replica, p.pool AS primary_pool, p.ttft_ns AS primary_ttft_ns, p.e2e_ns AS primary_e2e_ns,
       -- A primary that lost is only known to be longer, unless it ran to its end.
       p.status AS primary_status,
       coalesce(w.prompt_tokens, p.prompt_tokens) AS prompt_tokens,
       coalesce(w.cached_tokens, p.cached_tokens) AS cached_tokens,
       CASE WHEN w.request_key IS NULL THEN p.completion_tokens ELSE w.completion_tokens END AS completion_tokens,
       CASE WHEN w.request_key IS NULL THEN p.reasoning_tokens ELSE w.reasoning_tokens END AS reasoning_tokens,
       p.request_bytes,
       CASE WHEN w.request_key IS NULL THEN p.response_bytes ELSE w.response_bytes END AS response_bytes,
       coalesce(w.streamed, p.streamed) AS streamed,
       coalesce(w.cache_hit, p.cache_hit) AS cache_hit,
       coalesce(p.tools_offered, w.tools_offered) AS tools_offered,
       coalesce(p.stored_state, w.stored_state) AS stored_state,
       p.sticky_session,
       coalesce(p.batch, w.batch) AS batch,
       coalesce(p.n_choices, w.n_choices) AS n_choices,
       coalesce(w.http_status, p.http_status) AS http_status, p.error_kind,
       coalesce(f.cost, CASE WHEN p.cost >= 0 THEN p.cost END) AS cost, coalesce(p.currency, w.currency) AS currency,
       p.weight, p.closed_loop, p.file_id, p.line, p.record,
       -- What the decomposition needs of the attempt that answered.
       CASE WHEN w.request_key IS NULL THEN 0 ELSE w.arrival_ns - coalesce(f.arrival_ns, p.arrival_ns) END AS before_winner_ns,
       w.e2e_ns AS winner_e2e_ns, w.ttft_ns AS winner_ttft_ns,
       w.queue_ns, w.queue_basis, w.prefill_ns, w.prefill_basis, w.decode_ns, w.decode_basis,
       w.tool_wait_ns, w.tool_wait_basis, coalesce(w.resolution_ns, p.resolution_ns) AS resolution_ns
FROM selected_attempt p
LEFT JOIN folded f ON f.request_key = p.request_key
LEFT JOIN selected_attempt w ON w.request_key = p.request_key AND w.won
WHERE p.attempt_no = 0
ORDER BY p.request_key;
