-- name: join/pass_ids
-- question: by which further ids are rows found since another observer was joined to them?
-- input: join_id, join_found, joined_attempt
-- output: rows of join_outer_id: client, gateway and engine need not share one id if the gateway has both
INSERT INTO join_outer_id
SELECT DISTINCT f.outer_row, o.format, k.id
FROM join_found f
JOIN join_id k ON k.attempt_row = f.inner_row
JOIN joined_attempt o ON o.attempt_row = f.outer_row
WHERE f.verdict = 'joined'
