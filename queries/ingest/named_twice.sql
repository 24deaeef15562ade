-- name: ingest/named_twice
-- Input: `block`, the records that are looked at. Output: slot, and in how many of its records a field stands twice, at any depth. Formats
-- read the first of them. Looking inside ($inside) costs ten times as much, so that is done for a few records: who writes one twice does so
-- in all.
WITH looked_at AS MATERIALIZED (
    SELECT line, record, t, $inside AND length(t) < 100000 AS inside FROM block WHERE starts_with(t, '{') AND json_valid(t)
), twice AS (
    SELECT line, record FROM (SELECT line, record, json_keys(t) AS names FROM looked_at) WHERE len(names) <> list_unique(names)
    UNION
    SELECT line, record FROM (SELECT line, record, t FROM looked_at WHERE inside) r, json_tree(r.t)
    GROUP BY line, record, fullkey HAVING count(*) > 1
)
SELECT line >> 40 AS slot, count(*) AS records FROM twice GROUP BY slot
