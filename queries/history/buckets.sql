-- name: history/buckets
-- question: the latencies of each day and scope
-- input: history_bucket (or today_bucket)
-- output: one row a (day, model, route, metric, bucket)
SELECT day, model, route, metric, bucket, events, censored FROM {buckets} ORDER BY day, model, route, metric, bucket;
