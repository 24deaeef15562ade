-- name: check/overlapping_observers
-- question: which formats cover the same time as another one: are the same requests counted twice?
-- input: selected_attempt
-- output: one row a pair of formats whose time ranges overlap
WITH covered AS (
    SELECT format, observer, min(arrival_ns) AS first_ns, max(arrival_ns) AS last_ns, count(*) AS attempts
    FROM selected_attempt WHERE arrival_ns IS NOT NULL GROUP BY format, observer
)
SELECT a.format AS format, a.observer AS observer, b.format AS other_format, b.observer AS other_observer,
       greatest(a.first_ns, b.first_ns) AS from_ns, least(a.last_ns, b.last_ns) AS to_ns
FROM covered a JOIN covered b ON (a.format, a.observer) < (b.format, b.observer)
WHERE a.first_ns <= b.last_ns AND b.first_ns <= a.last_ns
ORDER BY a.format, a.observer, b.format, b.observer
