-- name: ingest/ledger_write
-- Lists of equal length, one a column -> rows of the ledger.
INSERT INTO ingested_file BY NAME
SELECT unnest($file_id::INTEGER[]) AS file_id,
       unnest($path::VARCHAR[]) AS path,
       unnest($format::VARCHAR[]) AS format,
       unnest($fingerprint::VARCHAR[]) AS fingerprint,
       unnest($fingerprint_bytes::BIGINT[]) AS fingerprint_bytes,
       unnest($bytes_read::BIGINT[]) AS bytes_read,
       unnest($tail_fingerprint::VARCHAR[]) AS tail_fingerprint,
       unnest($open_bytes::BIGINT[]) AS open_bytes,
       unnest($open_counts::BIGINT[][]) AS open_counts,
       unnest($lines::BIGINT[]) AS lines,
       unnest($accepted::BIGINT[]) AS accepted,
       unnest($duplicates::BIGINT[]) AS duplicates,
       unnest($not_requests::BIGINT[]) AS not_requests,
       unnest($rejected::BIGINT[]) AS rejected,
       unnest($last_line::BIGINT[]) AS last_line,
       unnest($batch_id::INTEGER[]) AS batch_id,
       unnest($start_fingerprint::VARCHAR[]) AS start_fingerprint
