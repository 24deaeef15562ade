-- name: join/pair
-- question: which formats are joined to which?
-- input: none; $place (0 = first), $inner, $outers
-- output: a row of join_pair
INSERT INTO join_pair VALUES ($place, $inner, $outers)
