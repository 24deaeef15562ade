-- name: fleet/parted
-- question: which hour and part does each attempt belong to?
-- input: attempt, fleet_scope
-- output: the rows of attempt with hour and part
SELECT a.*, s.hour, s.part
FROM attempt a JOIN fleet_scope s
  ON a.model IS NOT DISTINCT FROM s.model AND a.route IS NOT DISTINCT FROM s.route AND a.pool IS NOT DISTINCT FROM s.pool
 AND date_trunc('hour', make_timestamp(a.arrival_ns // 1000)) IS NOT DISTINCT FROM s.begin
