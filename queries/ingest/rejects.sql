-- name: ingest/rejects
-- Lists of equal length -> rows of `reject`.
INSERT INTO reject SELECT unnest($files::INTEGER[]), unnest($lines::BIGINT[]), unnest($reasons::VARCHAR[]), unnest($texts::VARCHAR[])
