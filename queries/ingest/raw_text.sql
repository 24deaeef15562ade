-- name: ingest/raw_text
-- What a text format reads: one row a line that is not blank. A line may come with the newline behind it.
CREATE OR REPLACE TEMP VIEW raw AS
SELECT line, record, rtrim(t, chr(10)) AS text FROM block WHERE trim(rtrim(t, chr(10))) <> ''
