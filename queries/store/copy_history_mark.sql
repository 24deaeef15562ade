-- name: store/copy_history_mark
-- question: what does the attached database hold?
-- input: held.history_mark
-- output: history_mark of the database in memory, same grain
INSERT INTO history_mark BY NAME SELECT * FROM held.history_mark;
