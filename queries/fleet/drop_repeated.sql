-- name: fleet/drop_repeated
-- question: which attempts are left once repetitions are gone?
-- input: repeated
-- output: attempt
DELETE FROM attempt WHERE (file_id, line, record) IN (SELECT (file_id, line, record) FROM repeated)
