-- name: fleet/parted
-- question: which hour does each attempt belong to?
-- input: attempt
-- output: the rows of attempt with `hour`, UTC, e.g. 2026-11-29T04; NULL without a time
SELECT *, strftime(make_timestamp(arrival_ns // 1000), '%Y-%m-%dT%H') AS hour FROM attempt
