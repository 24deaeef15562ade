-- name: fleet/stands
-- question: does a row of a part count still?
-- input: cut
-- output: TEMP MACRO stands(part, file_id, line)
CREATE OR REPLACE TEMP MACRO stands(of_part, of_file, at_line) AS
    NOT EXISTS (SELECT 1 FROM cut c WHERE c.part = of_part AND c.file_id = of_file AND at_line > c.line)
