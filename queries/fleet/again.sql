-- name: fleet/again
-- question: which ids stand more than once? Hardly any, and only their rows have to be compared.
-- input: fleet_row, one row an attempt
-- output: TEMP TABLE fleet_again(id_hash)
CREATE OR REPLACE TEMP TABLE fleet_again AS
SELECT hash(coalesce(attempt_id, request_id)) AS id_hash FROM fleet_row GROUP BY id_hash HAVING count(*) > 1
