-- name: ingest/named_twice
-- Input: `block`, the records that are looked at. Output: slot, and in how many of its records a field stands twice. Formats read the
-- first of them.
SELECT line >> 40 AS slot, count(*) AS records FROM (
    SELECT line, json_keys(t) AS names FROM block WHERE starts_with(t, '{') AND json_valid(t)
) WHERE len(names) <> list_unique(names) GROUP BY ALL
