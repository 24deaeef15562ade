-- name: store/copy_attempt
-- question: what does the attached database hold?
-- input: held.attempt
-- output: attempt of the database in memory, same grain
INSERT INTO attempt BY NAME SELECT * FROM held.attempt;
