-- name: ingest/overlap
-- Input: `attempt`. Output: pairs of formats whose arrivals overlap in time: both may have seen the same requests.
WITH span AS (
    SELECT format, arg_min(observer, arrival_ns) AS observer, min(arrival_ns) AS low, max(arrival_ns) AS high
    FROM attempt WHERE arrival_ns IS NOT NULL GROUP BY format
)
SELECT a.format, a.observer, b.format, b.observer, greatest(a.low, b.low) AS low, least(a.high, b.high) AS high
FROM span a JOIN span b ON a.format < b.format AND a.low <= b.high AND b.low <= a.high
ORDER BY a.format, b.format
