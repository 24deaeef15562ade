-- name: store/copy_history_bucket
-- question: what does the attached database hold?
-- input: held.history_bucket
-- output: history_bucket of the database in memory, same grain
INSERT INTO history_bucket BY NAME SELECT * FROM held.history_bucket;
