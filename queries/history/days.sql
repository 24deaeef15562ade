-- name: history/days
-- question: the counts of each day and scope
-- input: history_day (or today_count for logs that are not in a database)
-- output: one row a (day, model, route, currency)
SELECT day, model, route, currency, requests, attempts, hedges, hedge_wins, cancels, errors, censored, costed,
       CAST(cost AS DOUBLE) AS cost, CAST(winners_cost AS DOUBLE) AS winners_cost
FROM {counts}
ORDER BY day, model, route, currency;
