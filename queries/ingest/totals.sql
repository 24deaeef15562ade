-- name: ingest/totals
-- Attempts and logical requests in the database.
SELECT count(*) AS attempts, count(DISTINCT request_id) AS requests FROM attempt
