-- name: ingest/keyed
-- Input: view `staged` (rows of one format in this batch). Output: temp table `keyed`, one row an attempt that the log gives an
-- identity: its position, a hash of its id and of its content.
CREATE OR REPLACE TEMP TABLE keyed AS
SELECT line, record,
       hash(coalesce(attempt_id, request_id)) AS id_hash,
       attempt_id IS NOT NULL AS own_id,
       content_hash,
       arrival_ns
FROM staged
WHERE coalesce(kind, 'attempt') = 'attempt' AND coalesce(attempt_id, request_id) IS NOT NULL
