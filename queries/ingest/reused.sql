-- name: ingest/reused
-- Input: `keyed`, `attempt`, $format. Output: one number, the attempt ids of this batch that stand for different contents: kept,
-- and told. Stored rows are looked at within a day of the batch.
WITH range AS (SELECT min(arrival_ns) - 86400000000000 AS low, max(arrival_ns) + 86400000000000 AS high FROM keyed),
every AS (
    SELECT id_hash, content_hash FROM keyed WHERE own_id
    UNION ALL
    SELECT hash(a.attempt_id), a.content_hash FROM attempt a, range
    WHERE a.format = $format AND a.attempt_id IS NOT NULL AND a.arrival_ns BETWEEN low AND high
      AND hash(a.attempt_id) IN (SELECT id_hash FROM keyed WHERE own_id)
)
SELECT count(*) FROM (SELECT id_hash FROM every GROUP BY id_hash HAVING min(content_hash) <> max(content_hash))
