-- name: history/replace
-- question: keep the history equal to the raw rows for days that still have them; add late rows to days that do not
-- input: TEMP tables today_bucket, today_count; getvariable('raw_from'): first day whose raw rows are all there
-- output: tables history_bucket, history_day
DELETE FROM history_bucket WHERE day >= getvariable('raw_from') AND day IN (SELECT day FROM today_count);
DELETE FROM history_day WHERE day >= getvariable('raw_from') AND day IN (SELECT day FROM today_count);
INSERT INTO history_bucket SELECT * FROM today_bucket
ON CONFLICT DO UPDATE SET events = history_bucket.events + excluded.events, censored = history_bucket.censored + excluded.censored;
INSERT INTO history_day BY NAME SELECT * FROM today_count
ON CONFLICT DO UPDATE SET
    requests = history_day.requests + excluded.requests, attempts = history_day.attempts + excluded.attempts,
    hedges = history_day.hedges + excluded.hedges, hedge_wins = history_day.hedge_wins + excluded.hedge_wins,
    cancels = history_day.cancels + excluded.cancels, errors = history_day.errors + excluded.errors,
    censored = history_day.censored + excluded.censored, costed = history_day.costed + excluded.costed,
    cost = history_day.cost + excluded.cost, winners_cost = history_day.winners_cost + excluded.winners_cost;
