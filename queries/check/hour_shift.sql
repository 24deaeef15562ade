-- name: check/hour_shift
-- question: which files hold requests that another file of the same format has too, whole quarter hours apart (a zone read wrongly)?
-- input: selected_attempt
-- output: one row a pair of files
WITH told AS (
    SELECT format, request_id, file_id, min(arrival_ns) AS arrival_ns FROM selected_attempt
    WHERE arrival_ns IS NOT NULL GROUP BY format, request_id, file_id
)
SELECT a.file_id AS file_id, b.file_id AS other_file_id, (b.arrival_ns - a.arrival_ns) // 60000000000 AS shift_minutes, count(*) AS requests
FROM told a JOIN told b ON a.format = b.format AND a.request_id = b.request_id AND a.file_id < b.file_id
WHERE abs(b.arrival_ns - a.arrival_ns) >= 900000000000 AND (b.arrival_ns - a.arrival_ns) % 900000000000 = 0
GROUP BY ALL HAVING count(*) >= 3
ORDER BY ALL
