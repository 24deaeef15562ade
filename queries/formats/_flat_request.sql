-- name: formats/_flat_request
-- End of _flat: a record is a whole logical request whose loser is not logged. A hedged record gives two attempts: the winner,
-- and the loser, censored at the winner's end. k = 1 is the copy; it started hedge_delay after the request.
SELECT * EXCLUDE (hedged, hedge_delay, hedge_won, loser_replica, is_hedged, k, loser) REPLACE (
           TRY_CAST(CASE WHEN is_hedged THEN k ELSE attempt_no END AS INTEGER) AS attempt_no,
           CASE WHEN NOT is_hedged THEN cause WHEN k = 1 THEN 'hedge' ELSE 'primary' END AS cause,
           CASE WHEN loser THEN NULL ELSE attempt_id END AS attempt_id,
           CASE WHEN loser THEN loser_replica ELSE replica END AS replica,
           CASE WHEN k = 1 THEN arrival_ns + hedge_delay ELSE arrival_ns END AS arrival_ns,
           CASE WHEN k = 1 THEN e2e_ns - hedge_delay ELSE e2e_ns END AS e2e_ns,
           CASE WHEN loser THEN NULL WHEN k = 1 THEN ttft_ns - hedge_delay ELSE ttft_ns END AS ttft_ns,
           CASE WHEN loser THEN NULL ELSE ttft_basis END AS ttft_basis,
           CASE WHEN loser THEN NULL WHEN k = 1 THEN headers_ns - hedge_delay ELSE headers_ns END AS headers_ns,
           CASE WHEN is_hedged THEN NULL ELSE queue_ns END AS queue_ns,
           CASE WHEN is_hedged THEN NULL ELSE queue_basis END AS queue_basis,
           CASE WHEN is_hedged THEN NULL ELSE prefill_ns END AS prefill_ns,
           CASE WHEN is_hedged THEN NULL ELSE prefill_basis END AS prefill_basis,
           CASE WHEN loser THEN NULL ELSE decode_ns END AS decode_ns,
           CASE WHEN loser THEN NULL ELSE decode_basis END AS decode_basis,
           CASE WHEN loser THEN NULL ELSE completion_tokens END AS completion_tokens,
           CASE WHEN loser THEN NULL ELSE reasoning_tokens END AS reasoning_tokens,
           CASE WHEN loser THEN NULL ELSE response_bytes END AS response_bytes,
           CASE WHEN loser THEN 'censored' ELSE status END AS status,
           CASE WHEN loser THEN NULL ELSE http_status END AS http_status,
           CASE WHEN loser THEN 'loser' ELSE error_kind END AS error_kind,
           CASE WHEN is_hedged THEN NOT loser ELSE won END AS won,
           CASE WHEN loser THEN NULL ELSE cost END AS cost,
           CASE WHEN loser THEN NULL ELSE currency END AS currency)
FROM (
    SELECT *, is_hedged AND (k = 1) <> coalesce(hedge_won, false) AS loser
    FROM (SELECT *, kind = 'attempt' AND hedged AS is_hedged, unnest(CASE WHEN kind = 'attempt' AND hedged THEN [0, 1] ELSE [0] END) AS k FROM rows)
)
