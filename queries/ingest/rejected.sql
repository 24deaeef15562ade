-- name: ingest/rejected
-- How many rows were rejected in all files that were read.
SELECT coalesce(sum(rejected), 0)::BIGINT FROM ingested_file
