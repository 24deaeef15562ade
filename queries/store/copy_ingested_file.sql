-- name: store/copy_ingested_file
-- question: what does the attached database hold?
-- input: held.ingested_file
-- output: ingested_file of the database in memory, same grain
INSERT INTO ingested_file BY NAME SELECT * FROM held.ingested_file;
