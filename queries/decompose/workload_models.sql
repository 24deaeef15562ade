-- name: decompose/workload_models
-- question: which models does the selection hold?
-- input: request
-- output: one row a model, most requests first
SELECT model FROM request WHERE model IS NOT NULL AND arrival_ns IS NOT NULL
GROUP BY model ORDER BY count(*) DESC, model;
