-- name: recommend/scope_name
-- question: which names stand behind the codes of recommend/scope?
-- input: request
-- output: one row a name: kind (model | route), name; in code order
SELECT 'model' AS kind, model AS name FROM request WHERE model IS NOT NULL GROUP BY ALL
UNION ALL SELECT 'route', route FROM request WHERE route IS NOT NULL GROUP BY ALL
ORDER BY kind, name;
