-- name: ingest/window
-- First and last arrival in the database (ns, UTC), each request counted once whoever saw it, with counts; one row.
SELECT min(arrival_ns) AS "from", max(arrival_ns) AS "to", count(DISTINCT request_id) AS requests, count(*) AS attempts FROM observed
