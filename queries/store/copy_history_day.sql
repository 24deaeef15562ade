-- name: store/copy_history_day
-- question: what does the attached database hold?
-- input: held.history_day
-- output: history_day of the database in memory, same grain
INSERT INTO history_day BY NAME SELECT * FROM held.history_day;
