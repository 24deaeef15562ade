-- name: decompose/outlived_count
-- question: which models had timeouts that are no lower bounds?
-- input: outlived
-- output: one row a model
SELECT model, timeouts, given_ns, longer, requests FROM outlived ORDER BY model;
