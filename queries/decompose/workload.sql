-- name: decompose/workload
-- question: what arrived in one scope, in the order of arrival, as numbers only?
-- input: request, selected_attempt; $model, $route (NULL = all)
-- output: one row a logical request, no NULLs: NaN for an unknown time, -1 for an unknown count or code.
--         Codes count from 0 in the order of names that decompose/workload_names returns. The replica is the primary's.
WITH scoped AS (
    SELECT * FROM request
    WHERE arrival_ns IS NOT NULL AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route)
),
origin AS (SELECT min(arrival_ns) AS t0_ns FROM scoped),
replica_code AS (
    SELECT replica AS name, row_number() OVER (ORDER BY replica) - 1 AS code
    FROM (SELECT DISTINCT replica FROM selected_attempt
          WHERE replica IS NOT NULL AND ($model IS NULL OR model = $model OR model IS NULL)
            AND ($route IS NULL OR route = $route OR route IS NULL))
),
segment_code AS (
    SELECT segment AS name, row_number() OVER (ORDER BY segment) - 1 AS code
    FROM (SELECT DISTINCT segment FROM scoped WHERE segment IS NOT NULL)
),
route_code AS (
    SELECT route AS name, row_number() OVER (ORDER BY route) - 1 AS code
    FROM (SELECT DISTINCT route FROM scoped WHERE route IS NOT NULL)
),
tool_set AS (
    SELECT a.request_key, a.tool_names AS name
    FROM selected_attempt a JOIN scoped s ON s.request_key = a.request_key
    WHERE a.attempt_no = 0 AND a.tool_names IS NOT NULL AND a.tool_names <> ''
),
tool_set_code AS (
    SELECT name, row_number() OVER (ORDER BY name) - 1 AS code FROM (SELECT DISTINCT name FROM tool_set)
)
SELECT (s.arrival_ns - o.t0_ns) / 1e9 AS arrival_s,
       coalesce(s.prompt_tokens, -1) AS prompt_tokens,
       coalesce(s.cached_tokens, -1) AS cached_tokens,
       coalesce(s.completion_tokens, -1) AS completion_tokens,
       coalesce(s.ttft_ns / 1e9, 'nan'::DOUBLE) AS ttft_s,
       coalesce(s.e2e_ns / 1e9, 'nan'::DOUBLE) AS e2e_s,
       coalesce(s.headers_ns / 1e9, 'nan'::DOUBLE) AS headers_s,
       CASE WHEN s.queue_basis IN ('measured', 'derived') AND s.queue_ns IS NOT NULL THEN s.queue_ns / 1e9 ELSE 'nan'::DOUBLE END AS queue_s,
       CASE WHEN s.prefill_basis IN ('measured', 'derived') AND s.prefill_ns IS NOT NULL THEN s.prefill_ns / 1e9 ELSE 'nan'::DOUBLE END AS prefill_s,
       CASE WHEN s.decode_basis IN ('measured', 'derived') AND s.decode_ns IS NOT NULL THEN s.decode_ns / 1e9 ELSE 'nan'::DOUBLE END AS decode_s,
       CASE s.status WHEN 'ok' THEN 0 WHEN 'error' THEN 1 ELSE 2 END AS status,
       coalesce(s.streamed::TINYINT, -1) AS streamed,
       coalesce(rc.code, -1) AS replica,
       coalesce(s.tools_offered::TINYINT, -1) AS tools_offered,
       coalesce(s.cache_hit::TINYINT, -1) AS cache_hit,
       coalesce(s.stored_state::TINYINT, -1) AS stored_state,
       coalesce(s.sticky_session::TINYINT, -1) AS sticky_session,
       coalesce(s.batch::TINYINT, -1) AS batch,
       coalesce(s.n_choices, -1) AS n_choices,
       coalesce(s.cost::DOUBLE, 'nan'::DOUBLE) AS cost,
       coalesce(s.weight, 1.0) AS weight,
       coalesce(sc.code, -1) AS segment,
       coalesce(tc.code, -1) AS route,
       coalesce(s.request_bytes, -1) AS request_bytes,
       coalesce(s.response_bytes, -1) AS response_bytes,
       coalesce(nc.code, -1) AS tool_set
FROM scoped s
CROSS JOIN origin o
LEFT JOIN replica_code rc ON rc.name = s.primary_replica
LEFT JOIN segment_code sc ON sc.name = s.segment
LEFT JOIN route_code tc ON tc.name = s.route
LEFT JOIN tool_set n ON n.request_key = s.request_key
LEFT JOIN tool_set_code nc ON nc.name = n.name
ORDER BY s.arrival_ns, s.request_key;
