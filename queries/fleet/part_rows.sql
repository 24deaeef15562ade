-- name: fleet/part_rows
-- question: how many rows does each Parquet file hold?
-- input: $files
-- output: file name, rows
SELECT file_name, num_rows FROM parquet_file_metadata($files)
