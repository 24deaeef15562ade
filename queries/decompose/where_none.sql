-- name: decompose/where_none
-- question: which requests pass --where when none was given?
-- input: none
-- output: TEMP TABLE where_key, empty: it is not consulted
CREATE OR REPLACE TEMP TABLE where_key (request_key BIGINT);
