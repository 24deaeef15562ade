-- name: history/replace
-- question: keep the history equal to the raw rows for days that still have them all
-- input: TEMP tables today_bucket, today_count; getvariable('raw_from'): first day whose raw rows are all there
-- output: tables history_bucket, history_day
DELETE FROM history_bucket WHERE day >= getvariable('raw_from') AND day IN (SELECT day FROM today_count);
DELETE FROM history_day WHERE day >= getvariable('raw_from') AND day IN (SELECT day FROM today_count);
INSERT INTO history_bucket SELECT * FROM today_bucket WHERE day >= getvariable('raw_from');
INSERT INTO history_day BY NAME SELECT * FROM today_count WHERE day >= getvariable('raw_from');
