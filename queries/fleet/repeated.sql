-- name: fleet/repeated
-- question: which records say what an earlier record says already? The rule of ingest/repeated, over the batches of a folder: same
--           format, same id, same content; a record that gives several rows is repeated if all of them are. Rows without an id are
--           never repetitions (their request_id was made from file and line).
-- input: fleet_row, one row an attempt; fleet_again
-- output: TEMP TABLE repeated(file_id, line, record)
CREATE OR REPLACE TEMP TABLE repeated AS
WITH keyed AS (
    SELECT file_id, line, record, format, hash(coalesce(attempt_id, request_id)) AS id_hash, content_hash,
           (file_id::HUGEINT << 72) + (line::HUGEINT << 32) + record AS position
    FROM fleet_row
    WHERE attempt_id IS NOT NULL OR NOT starts_with(request_id, '#' || file_id || ':')
), first AS MATERIALIZED (
    SELECT format, id_hash, content_hash, min(position) AS first_at FROM keyed SEMI JOIN fleet_again USING (id_hash)
    GROUP BY ALL HAVING count(*) > 1
), later AS MATERIALIZED (
    SELECT DISTINCT k.file_id, k.line, k.record FROM keyed k JOIN first f USING (format, id_hash, content_hash) WHERE k.position > f.first_at
)
SELECT k.file_id, k.line, k.record
FROM (FROM keyed SEMI JOIN later USING (file_id, line, record)) k LEFT JOIN first f USING (format, id_hash, content_hash)
GROUP BY k.file_id, k.line, k.record
HAVING bool_and(coalesce(k.position > f.first_at, false))
