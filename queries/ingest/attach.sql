-- name: ingest/attach
-- The stage: an in-memory database beside the real one, where several threads put the rows of a batch before they are merged.
-- `template` has every column a format may return, so that a merge can name them all.
ATTACH IF NOT EXISTS ':memory:' AS stage;
CREATE TABLE IF NOT EXISTS stage.template AS
SELECT NULL::VARCHAR AS kind, NULL::VARCHAR AS reason, NULL::VARCHAR AS note, * EXCLUDE (file_id, format)
FROM attempt LIMIT 0
