-- name: join/forget_ids
-- question: how is join_id emptied before the next format?
-- input: join_id
-- output: join_id, empty
TRUNCATE join_id
