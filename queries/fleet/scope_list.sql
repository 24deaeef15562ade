-- name: fleet/scope_list
-- question: which model, route, pool and hour is each part of?
-- input: fleet_scope
-- output: one row a part, in the order of its number
SELECT model, route, pool, hour FROM fleet_scope ORDER BY part
