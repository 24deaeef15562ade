-- name: ingest/parquet_rows
-- Every row of a Parquet file as a JSON object, with its 1-based number. $path.
SELECT file_row_number + 1 AS line, to_json(struct_pack(*COLUMNS(* EXCLUDE (file_row_number))))
FROM read_parquet($path, file_row_number = true)
