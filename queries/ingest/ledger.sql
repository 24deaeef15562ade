-- name: ingest/ledger
-- Every file that was read, in the order of hedgectl/ingest/ledger.py.
SELECT file_id, path, format, fingerprint, fingerprint_bytes, bytes_read, tail_fingerprint, open_bytes, open_counts, lines, accepted, duplicates, not_requests, rejected, last_line, batch_id, start_fingerprint
FROM ingested_file ORDER BY file_id
