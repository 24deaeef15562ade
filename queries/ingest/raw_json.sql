-- name: ingest/raw_json
-- What a format reads: one row a JSON object. Input `block(line, record, t)` is bound by the reader. `j` is the text as it is:
-- a cast to JSON would parse it once more; the format's own extraction fails on an invalid one, which the reader notices and takes
-- the invalid lines out. Everything else (arrays, glued records, text) goes the slow way, and so does what may hold a bare NaN or
-- Infinity: DuckDB takes these for valid JSON. Looking for a word is fast if its first letter is rare, so the lower-case spellings
-- that DuckDB takes too are not looked for: no decimal reads them, they are unknown values. CASE, because AND and OR would run the
-- slow pattern on every row. The variable `hedgectl_sure` says that the
-- rows have been through it.
CREATE OR REPLACE TEMP VIEW raw AS
SELECT line, record, t AS j FROM block
WHERE starts_with(t, '{')
  AND NOT CASE WHEN getvariable('hedgectl_sure') THEN false
               WHEN contains(t, 'NaN') OR contains(t, 'Inf') THEN regexp_matches(t, '[:,\[]\s*-?(?:NaN|Inf)')
               ELSE false END
