-- name: ingest/merge_attempts
-- Input: `staged`, `repeated`, $format, $observer, $resolution, $files (file_id by slot). Output: rows of `attempt`, by name.
INSERT INTO attempt BY NAME
SELECT * EXCLUDE (kind, reason, note)
    REPLACE (
        line & 1099511627775 AS line,
        coalesce(request_id, '#' || $files[(line >> 40) + 1] || ':' || (line & 1099511627775)
            || CASE WHEN record > 0 THEN '.' || record ELSE '' END) AS request_id,
        coalesce(observer, $observer) AS observer,
        coalesce(resolution_ns, $resolution) AS resolution_ns,
        coalesce(status, 'ok') AS status,
        coalesce(weight, 1) AS weight
    ),
    $files[(line >> 40) + 1] AS file_id,
    $format AS format
FROM staged
WHERE coalesce(kind, 'attempt') = 'attempt'
  AND (line, record) NOT IN (SELECT (line, record) FROM repeated)
