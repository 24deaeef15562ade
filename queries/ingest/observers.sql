-- name: ingest/observers
-- Who timed the attempts in the database.
SELECT DISTINCT observer FROM attempt ORDER BY observer
