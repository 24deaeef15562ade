-- name: ingest/repeated_by_file
-- Input: `repeated`, $open (positions of last lines without a newline). Output: slot, repeated records, of them in an open line.
SELECT line >> 40 AS slot, count(*) AS repeated, count(*) FILTER (list_contains($open, line)) AS open_repeated
FROM repeated GROUP BY slot
