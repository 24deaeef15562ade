-- name: history/keep_history_day
-- question: what is in history_day?
-- output: its rows, in the order of their key
SELECT day, model, route, currency, requests, attempts, hedges, hedge_wins, cancels, errors, censored, costed, cost, winners_cost FROM history_day ORDER BY ALL;
