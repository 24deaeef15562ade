-- name: probe/insert_run
-- question: which run do these attempts belong to?
-- input: $run (id of the run), $attempts (rows it adds)
-- output: ingested_file, one row a run; a probe has no file, so its path is `probe:` and the run's id
INSERT INTO ingested_file BY NAME
SELECT coalesce(max(file_id), 0) + 1 AS file_id, coalesce(max(batch_id), 0) + 1 AS batch_id,
       'probe:' || $run AS path, 'probe' AS format, sha256($run) AS fingerprint, 0 AS fingerprint_bytes, 0 AS bytes_read,
       sha256($run) AS tail_fingerprint, 0 AS open_bytes, [0, 0, 0, 0]::BIGINT[] AS open_counts, $attempts AS last_line,
       $attempts AS lines, $attempts AS accepted, 0 AS duplicates, 0 AS not_requests, 0 AS rejected
FROM ingested_file
RETURNING file_id
