-- name: decompose/workload
-- question: what arrived, as plain numbers for the replay, the screen and the diagnosis?
-- input: request
-- output: one row a logical request that has an arrival time, in order of arrival; strings as codes into decompose/workload_name
-- parameters: primary_only (TRUE = what the first attempt did alone, as if no copy had been sent; FALSE = what the caller saw)
WITH replicas AS (SELECT replica, row_number() OVER (ORDER BY replica) - 1 AS code FROM (SELECT DISTINCT primary_replica AS replica FROM request WHERE primary_replica IS NOT NULL)),
segments AS (SELECT segment, row_number() OVER (ORDER BY segment) - 1 AS code FROM (SELECT DISTINCT segment FROM request WHERE segment IS NOT NULL)),
routes AS (SELECT route, row_number() OVER (ORDER BY route) - 1 AS code FROM (SELECT DISTINCT route FROM request WHERE route IS NOT NULL))
SELECT r.arrival_ns, r.prompt_tokens, r.cached_tokens, r.completion_tokens,
       CASE WHEN $primary_only THEN r.primary_ttft_ns ELSE r.ttft_ns END AS ttft_ns,
       CASE WHEN $primary_only THEN r.primary_e2e_ns ELSE r.e2e_ns END AS e2e_ns,
       CASE WHEN $primary_only AND r.hedge_won THEN NULL ELSE r.headers_ns END AS headers_ns,
       CASE WHEN r.before_winner_ns = 0 THEN r.queue_ns END AS queue_ns,
       CASE WHEN r.before_winner_ns = 0 THEN r.prefill_ns END AS prefill_ns,
       CASE WHEN r.before_winner_ns = 0 THEN r.decode_ns END AS decode_ns,
       CASE CASE WHEN $primary_only THEN r.primary_status ELSE r.status END WHEN 'ok' THEN 0 WHEN 'error' THEN 1 ELSE 2 END AS status,
       r.streamed::TINYINT AS streamed, replicas.code AS replica, r.tools_offered::TINYINT AS tools_offered,
       r.cache_hit::TINYINT AS cache_hit, r.stored_state::TINYINT AS stored_state, r.batch::TINYINT AS batch,
       r.n_choices, r.cost::DOUBLE AS cost, r.weight, segments.code AS segment, routes.code AS route,
       r.request_bytes, r.response_bytes
FROM request r
LEFT JOIN replicas ON replicas.replica = r.primary_replica
LEFT JOIN segments ON segments.segment = r.segment
LEFT JOIN routes ON routes.route = r.route
WHERE r.arrival_ns IS NOT NULL
ORDER BY r.arrival_ns, r.request_key;
