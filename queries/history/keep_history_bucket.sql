-- name: history/keep_history_bucket
-- question: what is in history_bucket?
-- output: its rows, in the order of their key
SELECT day, model, route, metric, bucket, events, censored FROM history_bucket ORDER BY ALL;
