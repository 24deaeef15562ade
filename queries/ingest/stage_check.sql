-- name: ingest/stage_check
-- What one job has put into the stage between two positions ($low, $high): rows, two sums that only the same lines give, and how
-- many rows are no attempts.
SELECT count(*), sum(line & 1099511627775), sum((line & 1023) * (line & 1048575)),
       count(*) FILTER (coalesce(kind, 'attempt') <> 'attempt' OR record <> 0)
FROM staged_here WHERE line BETWEEN $low AND $high
