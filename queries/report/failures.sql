-- name: failures
-- question: which attempts failed or were cut short, how often and after what time?
-- input: TEMP table selected_attempt, one row an attempt
-- output: one row a status, kind, HTTP code and replica, most frequent first, ms
SELECT status, error_kind, http_status, replica, count(*) AS attempts,
       round(median(e2e_ns) / 1e6, 1) AS median_ms, round(max(e2e_ns) / 1e6, 1) AS longest_ms
FROM selected_attempt WHERE status <> 'ok'
GROUP BY status, error_kind, http_status, replica
ORDER BY attempts DESC, status, error_kind, http_status, replica
