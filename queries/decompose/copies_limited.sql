-- name: decompose/copies_limited
-- question: how many copies did a rate limit refuse?
-- input: selected_attempt
-- output: one row
SELECT count(*) FILTER (cause = 'hedge' AND http_status = 429) AS copies FROM selected_attempt
