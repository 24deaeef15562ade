-- name: ingest/suspect
-- Input: `staged`, `attempt`, $format, $low, $high, $timeless (of ingest/span, $low and $high a day wider). Output: one number, the ids
-- that occur more than once in this batch or are in the database already. Almost always there is none, and then nothing has to be
-- compared. The bounds are bound, so that whole row groups of `attempt` are passed over.
WITH named AS (
    SELECT hash(coalesce(attempt_id, request_id)) AS id_hash FROM staged
    WHERE coalesce(kind, 'attempt') = 'attempt' AND coalesce(attempt_id, request_id) IS NOT NULL
)
SELECT (SELECT count(*) FROM (SELECT id_hash FROM named GROUP BY id_hash HAVING count(*) > 1))
     + (SELECT count(*) FROM attempt
        WHERE format = $format AND (arrival_ns BETWEEN $low AND $high OR ($timeless AND arrival_ns IS NULL))
          AND hash(coalesce(attempt_id, request_id)) IN (SELECT id_hash FROM named))
