-- name: replica_slots
-- question: when was which replica slow?
-- input: TEMP table selected_attempt, one row an attempt
-- output: one row a replica and slot of time with an attempt: attempts, and those beyond the threshold
-- parameters (NULL = default): threshold_ns (p95), slot_ns (a 60th of the span), from_ns, to_ns (the whole window)
-- An attempt that was cut short counts as slow once it ran beyond the threshold; cut earlier it says nothing.
WITH told AS (
    SELECT replica, arrival_ns, e2e_ns, status FROM selected_attempt
    WHERE replica IS NOT NULL AND arrival_ns IS NOT NULL AND e2e_ns IS NOT NULL AND status <> 'error'
      AND NOT coalesce(cache_hit, FALSE)
),
frame AS (
    SELECT coalesce($threshold_ns, quantile_cont(e2e_ns, 0.95)) AS threshold_ns,
           coalesce($from_ns, min(arrival_ns)) AS from_ns, coalesce($to_ns, max(arrival_ns) + 1) AS to_ns,
           coalesce($slot_ns, greatest((max(arrival_ns) - min(arrival_ns)) // 60, 1)) AS slot_ns
    FROM told
)
SELECT t.replica, ((t.arrival_ns - f.from_ns) // f.slot_ns)::INTEGER AS slot,
       make_timestamp(((t.arrival_ns - f.from_ns) // f.slot_ns * f.slot_ns + f.from_ns)::BIGINT // 1000) AS slot_utc,
       count(*) AS attempts, count(*) FILTER (t.e2e_ns > f.threshold_ns) AS slow
FROM told t, frame f
WHERE t.arrival_ns >= f.from_ns AND t.arrival_ns < f.to_ns AND (t.status = 'ok' OR t.e2e_ns > f.threshold_ns)
GROUP BY t.replica, slot, slot_utc ORDER BY t.replica, slot
