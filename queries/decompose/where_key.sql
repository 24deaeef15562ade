-- name: decompose/where_key
-- question: which logical requests pass --where?
-- input: passed (the rows of first_attempt for which the user's expression is true)
-- output: TEMP TABLE where_key, one row a request
CREATE OR REPLACE TEMP TABLE where_key AS SELECT request_key FROM passed
