-- name: ingest/raw_text
-- What a text format reads: one row a line that is not blank.
CREATE OR REPLACE TEMP VIEW raw AS
SELECT line, record, t AS text FROM block WHERE trim(t) <> ''
