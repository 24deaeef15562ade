-- name: history/today_count
-- question: how many requests, copies, cancels and how much money did each day see?
-- input: TEMP tables request and selected_attempt of a prepared selection; $tz names the zone of a day
-- output: TEMP TABLE today_count, one row a (day, model, route, currency)
CREATE OR REPLACE TEMP TABLE today_count AS
WITH sent AS (
    SELECT request_key,
           count(*) FILTER (NOT coalesce(won, FALSE) AND status = 'censored') AS cut,
           bool_or(coalesce(won, FALSE)) AS has_winner,
           sum(cost) FILTER (won) AS winners_cost
    FROM selected_attempt GROUP BY request_key
)
SELECT CAST(timezone($tz, make_timestamptz(r.arrival_ns // 1000)) AS DATE) AS day,
       coalesce(r.model, '') AS model, coalesce(r.route, '') AS route,
       CASE WHEN r.cost IS NULL THEN '' ELSE coalesce(r.currency, '') END AS currency,
       count(*) AS requests,
       sum(r.attempts) AS attempts,
       sum(r.hedges) AS hedges,
       count(*) FILTER (r.hedge_won) AS hedge_wins,
       coalesce(sum(s.cut) FILTER (s.has_winner), 0) AS cancels,
       count(*) FILTER (r.status = 'error') AS errors,
       count(*) FILTER (r.status = 'censored') AS censored,
       count(r.cost) AS costed,
       coalesce(sum(r.cost), 0) AS cost,
       coalesce(sum(coalesce(s.winners_cost, r.cost)), 0) AS winners_cost
FROM request r JOIN sent s USING (request_key)
WHERE r.arrival_ns IS NOT NULL AND NOT coalesce(r.cache_hit, FALSE)
GROUP BY ALL;
