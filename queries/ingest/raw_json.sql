-- name: ingest/raw_json
-- What a format reads: one row a JSON object. Input `block(line, record, t)` is bound by the reader; a cast that fails is
-- noticed by it, the invalid lines are then taken out. Everything else (arrays, glued records, text) goes the slow way.
CREATE OR REPLACE TEMP VIEW raw AS
SELECT line, record, CAST(t AS JSON) AS j FROM block WHERE starts_with(t, '{')
