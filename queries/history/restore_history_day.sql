-- name: history/restore_history_day
-- question: put one kept row back
-- output: one row of history_day
INSERT INTO history_day (day, model, route, currency, requests, attempts, hedges, hedge_wins, cancels, errors, censored, costed, cost, winners_cost)
VALUES ($day, $model, $route, $currency, $requests, $attempts, $hedges, $hedge_wins, $cancels, $errors, $censored, $costed, $cost, $winners_cost);
