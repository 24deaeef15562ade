-- name: join/tables
-- question: where are ids and verdicts kept while observers are joined?
-- input: none
-- output: empty TEMP TABLEs: join_id (the ids of one inner format), join_outer_id (those of the rows that stay), join_pair (the formats
--         that were joined), join_verdict (one row a row of an inner format; see join/match); and
--         folded_attempt, if nothing was folded yet
CREATE OR REPLACE TEMP TABLE join_id (attempt_row BIGINT, id VARCHAR);
CREATE OR REPLACE TEMP TABLE join_outer_id (attempt_row BIGINT, format VARCHAR, id VARCHAR);
CREATE OR REPLACE TEMP TABLE join_pair (place INTEGER, inner_format VARCHAR, outer_formats VARCHAR[]);
CREATE OR REPLACE TEMP TABLE join_verdict (inner_format VARCHAR, inner_row BIGINT, outer_row BIGINT, verdict VARCHAR);
CREATE TEMP TABLE IF NOT EXISTS folded_attempt (attempt_row BIGINT);
