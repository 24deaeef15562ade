-- name: fleet/cut
-- question: which rows of which part were replaced by a later batch? The last line of a file had no end when it was first read.
-- input: $files, $file_ids, $lines (lists of equal length): rows of file_id behind line do not count in that part
-- output: TEMP TABLE cut
CREATE OR REPLACE TEMP TABLE cut AS
SELECT unnest($files::VARCHAR[]) AS part, unnest($file_ids::INTEGER[]) AS file_id, unnest($lines::BIGINT[]) AS line
