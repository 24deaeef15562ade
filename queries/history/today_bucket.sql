-- name: history/today_bucket
-- question: how many latencies of each size did each day see?
-- input: TEMP table request of a prepared selection (one row a logical request); $tz names the zone of a day
-- output: TEMP TABLE today_bucket, one row a (day, model, route, metric, bucket)
CREATE OR REPLACE TEMP TABLE today_bucket AS
WITH seen AS (
    SELECT CAST(timezone($tz, make_timestamptz(arrival_ns // 1000)) AS DATE) AS day,
           coalesce(model, '') AS model, coalesce(route, '') AS route, status = 'ok' AS answered, streamed,
           status = 'censored' AS cut,
           e2e_ns, ttft_ns, primary_e2e_ns, primary_ttft_ns, primary_status
    FROM request
    WHERE arrival_ns IS NOT NULL AND NOT coalesce(cache_hit, FALSE)
),
timed AS (
    SELECT day, model, route, 'e2e' AS metric, e2e_ns AS ns, NOT answered AS is_bound FROM seen WHERE answered OR cut
    UNION ALL
    SELECT day, model, route, 'ttft', CASE WHEN answered THEN ttft_ns ELSE e2e_ns END, NOT answered FROM seen WHERE answered OR cut
    UNION ALL
    SELECT day, model, route, 'ttfc_streamed', ttft_ns, FALSE FROM seen WHERE answered AND coalesce(streamed, ttft_ns IS NOT NULL)
    UNION ALL
    SELECT day, model, route, 'ttfc_whole', e2e_ns, FALSE FROM seen WHERE answered AND streamed = FALSE
    UNION ALL
    SELECT day, model, route, 'primary_e2e', primary_e2e_ns, primary_status = 'censored' FROM seen WHERE primary_status <> 'error'
    UNION ALL
    SELECT day, model, route, 'primary_ttft', coalesce(primary_ttft_ns, CASE WHEN primary_status = 'censored' THEN primary_e2e_ns END),
           primary_status = 'censored' AND primary_ttft_ns IS NULL
    FROM seen WHERE primary_status <> 'error'
)
SELECT day, model, route, metric,
       CAST(floor(ln(ns) / ln(1.01) + 1e-9) AS INTEGER) AS bucket,
       count(*) FILTER (NOT is_bound) AS events,
       count(*) FILTER (is_bound) AS censored
FROM timed
WHERE ns > 0  -- 0 is a duration that nobody timed, not a fast answer
GROUP BY ALL;
