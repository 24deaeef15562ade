-- name: ingest/hashed
-- Input: `format_rows`, what a format's SELECT gives, put in front by the reader. Output: its rows with a hash of their content: of
-- the canonical values, so that the order of keys in the log does not matter.
SELECT *, hash(*COLUMNS(lambda c: c NOT IN ('line', 'record', 'kind', 'reason', 'note'))) AS content_hash FROM format_rows
