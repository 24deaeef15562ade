-- name: ingest/named_twice
-- In how many of the bound block's records does a field stand twice? Formats read the first of them.
-- All of a file's first $first lines are looked at, and every 50th behind them: keys of all lines would cost a tenth of the reading.
SELECT line >> 40 AS slot, count(*) AS records FROM (
    SELECT line, json_keys(t) AS names FROM block
    WHERE starts_with(t, '{') AND ((line & 1099511627775) <= $first OR line % 50 = 0) AND json_valid(t)
) WHERE len(names) <> list_unique(names) GROUP BY ALL
