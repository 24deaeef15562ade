-- name: ingest/repeated
-- Input: `keyed`, the table `attempt`, $format. Output: temp table `repeated(line, record)`, the records of this batch that say
-- what an earlier record (of this batch or of the database) says already. A record that gives several rows is repeated if all
-- its rows are. `attempt` is looked at only around the time of the batch: equal content has an equal arrival.
CREATE OR REPLACE TEMP TABLE repeated AS
WITH first AS (
    SELECT id_hash, content_hash, min((line::HUGEINT << 32) + record) AS first_at
    FROM keyed GROUP BY ALL HAVING count(*) > 1
), range AS (
    SELECT min(arrival_ns) AS low, max(arrival_ns) AS high, bool_or(arrival_ns IS NULL) AS timeless FROM keyed
), stored AS (
    SELECT DISTINCT a.content_hash, hash(coalesce(a.attempt_id, a.request_id)) AS id_hash
    FROM attempt a, range
    WHERE a.format = $format AND (a.arrival_ns BETWEEN low AND high OR (timeless AND a.arrival_ns IS NULL))
      AND a.content_hash IN (SELECT content_hash FROM keyed)
), judged AS (
    SELECT k.line, k.record,
           coalesce((k.line::HUGEINT << 32) + k.record > f.first_at, false) OR s.content_hash IS NOT NULL AS again
    FROM keyed k
    LEFT JOIN first f ON f.id_hash = k.id_hash AND f.content_hash = k.content_hash
    LEFT JOIN stored s ON s.id_hash = k.id_hash AND s.content_hash = k.content_hash
)
SELECT line, record FROM judged GROUP BY line, record HAVING bool_and(again)
