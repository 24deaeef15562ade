-- name: history/restore_history_bucket
-- question: put one kept row back
-- output: one row of history_bucket
INSERT INTO history_bucket (day, model, route, metric, bucket, events, censored)
VALUES ($day, $model, $route, $metric, $bucket, $events, $censored);
