-- name: decompose/workload_name
-- question: which names stand behind the codes of decompose/workload?
-- input: request
-- output: one row a name: kind (replica | segment | route | currency), name, pool (of a replica: its most frequent one); in code order
SELECT 'replica' AS kind, primary_replica AS name, mode(primary_pool) AS pool FROM request WHERE primary_replica IS NOT NULL GROUP BY ALL
UNION ALL SELECT 'segment', segment, NULL FROM request WHERE segment IS NOT NULL GROUP BY ALL
UNION ALL SELECT 'route', route, NULL FROM request WHERE route IS NOT NULL GROUP BY ALL
UNION ALL SELECT 'currency', currency, NULL FROM request WHERE currency IS NOT NULL GROUP BY ALL
ORDER BY kind, name;
