-- name: formats/_flat_attempt
-- End of _flat: a record is one attempt.
SELECT * EXCLUDE (hedged, hedge_delay, hedge_won, loser_replica) FROM rows
