-- name: history/add_late
-- question: add the rows that came late to days whose raw rows were dropped before
-- input: TEMP tables today_bucket, today_count; getvariable('raw_from'): first day whose raw rows are all there
-- output: tables history_bucket, history_day
INSERT INTO history_bucket SELECT * FROM today_bucket WHERE day < getvariable('raw_from')
ON CONFLICT DO UPDATE SET events = history_bucket.events + excluded.events, censored = history_bucket.censored + excluded.censored;
INSERT INTO history_day BY NAME SELECT * FROM today_count WHERE day < getvariable('raw_from')
ON CONFLICT DO UPDATE SET
    requests = history_day.requests + excluded.requests, attempts = history_day.attempts + excluded.attempts,
    hedges = history_day.hedges + excluded.hedges, hedge_wins = history_day.hedge_wins + excluded.hedge_wins,
    cancels = history_day.cancels + excluded.cancels, errors = history_day.errors + excluded.errors,
    censored = history_day.censored + excluded.censored, costed = history_day.costed + excluded.costed,
    cost = history_day.cost + excluded.cost, winners_cost = history_day.winners_cost + excluded.winners_cost;
