-- name: join/keep_ids
-- question: by which ids are the rows that stay found?
-- input: join_id (of one format that stays); $format
-- output: rows of join_outer_id
INSERT INTO join_outer_id SELECT DISTINCT attempt_row, $format, id FROM join_id
