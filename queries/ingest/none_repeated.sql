-- name: ingest/none_repeated
-- Output: `repeated` of a batch in which nothing is.
CREATE OR REPLACE TEMP TABLE repeated (line BIGINT, record INTEGER)
