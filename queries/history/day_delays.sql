-- name: history/day_delays
-- question: how slow was the unhedged service on each single day of a window?
-- input: history_bucket; $first, $last: days, both included
-- output: one row a (model, metric, day, bucket), routes added up
SELECT model, metric, day, bucket, CAST(sum(events) AS BIGINT) AS events, CAST(sum(censored) AS BIGINT) AS censored
FROM history_bucket
WHERE metric IN ('primary_e2e', 'primary_ttft') AND day BETWEEN $first AND $last
GROUP BY ALL ORDER BY model, metric, day, bucket;
