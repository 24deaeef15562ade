-- name: decompose/workload_names
-- question: which names stand behind the codes of decompose/workload?
-- input: request, selected_attempt; $model, $route (NULL = all)
-- output: rows (kind, name, pool) with kind replica | segment | route | provider | tool_set, ordered by kind and name
SELECT 'replica' AS kind, replica AS name, max(pool) AS pool
FROM selected_attempt
WHERE replica IS NOT NULL AND ($model IS NULL OR model = $model OR model IS NULL)
  AND ($route IS NULL OR route = $route OR route IS NULL)
GROUP BY replica
UNION ALL
SELECT DISTINCT 'segment', segment, NULL FROM request
WHERE segment IS NOT NULL AND arrival_ns IS NOT NULL
  AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route)
UNION ALL
SELECT DISTINCT 'route', route, NULL FROM request
WHERE route IS NOT NULL AND arrival_ns IS NOT NULL
  AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route)
UNION ALL
SELECT DISTINCT 'provider', provider, NULL FROM request
WHERE provider IS NOT NULL AND ($model IS NULL OR model = $model) AND ($route IS NULL OR route = $route)
UNION ALL
SELECT DISTINCT 'tool_set', a.tool_names, NULL
FROM selected_attempt a JOIN request s ON s.request_key = a.request_key
WHERE a.attempt_no = 0 AND a.tool_names IS NOT NULL AND a.tool_names <> '' AND s.arrival_ns IS NOT NULL
  AND ($model IS NULL OR s.model = $model) AND ($route IS NULL OR s.route = $route)
ORDER BY ALL;
