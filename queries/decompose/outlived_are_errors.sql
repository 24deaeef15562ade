-- name: decompose/outlived_are_errors
-- question: the timeouts that bound nothing, as what they are.
-- input: outlived
-- output: TEMP TABLE request with those rows as errors
UPDATE request SET status = 'error'
WHERE status = 'censored' AND hedges = 0 AND e2e_ns IS NOT NULL AND error_kind = 'timeout'
  AND coalesce(model, '') IN (SELECT model FROM outlived);
