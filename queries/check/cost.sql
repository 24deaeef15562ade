-- name: check/cost
-- question: which attempts have a cost below zero, or one without a currency?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, cost::DOUBLE AS cost, currency
FROM selected_attempt WHERE cost < 0 OR cost <> 0 AND currency IS NULL
ORDER BY request_key, attempt_no
