-- name: fleet/hour_repeated
-- question: how many records of each file are repetitions?
-- input: repeated
-- output: file_id, records
SELECT file_id, count(*) FROM repeated GROUP BY file_id ORDER BY file_id
