-- name: ingest/window
-- First arrival and last end in the database, UTC, with counts; one row.
SELECT strftime(make_timestamp(min(arrival_ns) // 1000), '%Y-%m-%dT%H:%M:%S.%fZ') AS "from",
       strftime(make_timestamp(max(arrival_ns + coalesce(e2e_ns, 0)) // 1000), '%Y-%m-%dT%H:%M:%S.%fZ') AS "to",
       count(DISTINCT request_id) AS requests, count(*) AS attempts
FROM attempt
