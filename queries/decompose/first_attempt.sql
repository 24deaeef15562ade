-- name: decompose/first_attempt
-- question: which logical requests could be chosen, each with its first attempt's columns?
-- input: observed, attempt_link
-- output: TEMP TABLE first_attempt, one row a logical request: request_key and the columns of attempt; its own `where` runs on it
CREATE OR REPLACE TEMP TABLE first_attempt AS
SELECT l.request_key, a.* EXCLUDE (attempt_row) REPLACE (l.status AS status, l.cause AS cause, l.attempt_no::INTEGER AS attempt_no)
FROM observed a JOIN attempt_link l ON a.attempt_row = l.attempt_row AND l.attempt_no = 0;
