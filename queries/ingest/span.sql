-- name: ingest/span
-- Input: view `staged` (rows of one format in this batch). Output: first and last arrival of attempts that have an id (ns), and
-- whether some of them have no arrival. One row, NULLs without such an attempt.
SELECT min(arrival_ns), max(arrival_ns), coalesce(bool_or(arrival_ns IS NULL), false)
FROM staged
WHERE coalesce(kind, 'attempt') = 'attempt' AND coalesce(attempt_id, request_id) IS NOT NULL
