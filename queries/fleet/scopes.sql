-- name: fleet/scopes
-- question: which parts do the attempts fall into?
-- input: attempt
-- output: TEMP TABLE fleet_scope, one row a model, route, pool and hour, numbered from 0; `begin` is that of the hour, `hour` its name (UTC,
--         2026-11-29T04), both NULL without a time
CREATE OR REPLACE TEMP TABLE fleet_scope AS
SELECT (row_number() OVER (ORDER BY model, route, pool, begin) - 1)::INTEGER AS part, *, strftime(begin, '%Y-%m-%dT%H') AS hour
FROM (SELECT DISTINCT model, route, pool, date_trunc('hour', make_timestamp(arrival_ns // 1000)) AS begin FROM attempt)
