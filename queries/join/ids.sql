-- name: join/ids
-- question: by which ids may the rows of one format be found in another log?
-- input: attempt, folded_attempt; $format, $column (request_id, attempt_id or parent_id), $pattern (its group 1 is the id; '' = all of it)
-- output: rows of join_id. Ids that hedgectl made itself, from file and line, are none.
INSERT INTO join_id
SELECT attempt_row, id
FROM (
    SELECT attempt_row, CASE WHEN $pattern = '' THEN logged ELSE regexp_extract(logged, $pattern, 1) END AS id
    FROM (
        SELECT rowid AS attempt_row, CASE $column WHEN 'attempt_id' THEN attempt_id WHEN 'parent_id' THEN parent_id ELSE request_id END AS logged
        FROM attempt
        WHERE format = $format AND rowid NOT IN (SELECT attempt_row FROM folded_attempt)
    )
)
WHERE id <> '' AND NOT starts_with(id, '#')
