-- name: ingest/valid
-- The lines of the bound block that DuckDB calls valid JSON objects.
SELECT line, record FROM block WHERE starts_with(t, '{') AND json_valid(t)
