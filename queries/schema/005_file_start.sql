-- name: 005_file_start
-- Which files begin alike: a new file is compared with those, not with every length that was ever read.
ALTER TABLE ingested_file ADD COLUMN start_fingerprint VARCHAR;     -- blake2b of the first 4096, 1024, 256 or 64 bytes, the most there are
