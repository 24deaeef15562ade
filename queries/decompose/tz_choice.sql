-- name: decompose/tz_choice
-- question: in which time zone are hours and days told?
-- input: none
-- output: TEMP TABLE tz_choice, one row
-- parameters: tz (name of a zone)
CREATE OR REPLACE TEMP TABLE tz_choice AS SELECT $tz::VARCHAR AS tz;
