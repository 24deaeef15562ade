-- name: decompose/outlived
-- question: which timeouts did not end at a limit that bounds the answers? At least as many answers took longer than they were given.
-- input: request
-- output: TEMP TABLE outlived, one row a model: timeouts, given_ns (their median), longer (answers beyond it), requests
-- A hang-up is somebody's patience, and a primary that lost to a copy was cut by it: both stay lower bounds.
CREATE OR REPLACE TEMP TABLE outlived AS
WITH given AS (
    SELECT coalesce(model, '') AS model, count(*) AS timeouts, median(e2e_ns) AS given_ns
    FROM request WHERE status = 'censored' AND hedges = 0 AND e2e_ns IS NOT NULL AND error_kind = 'timeout' GROUP BY ALL
),
counted AS (
    SELECT g.model, g.timeouts, g.given_ns, count(*) AS requests,
           count(*) FILTER (r.status = 'ok' AND r.e2e_ns > g.given_ns AND NOT coalesce(r.cache_hit, FALSE)) AS longer
    FROM given g JOIN request r ON coalesce(r.model, '') = g.model GROUP BY ALL
)
SELECT * FROM counted WHERE longer >= timeouts;
