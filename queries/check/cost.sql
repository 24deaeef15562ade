-- name: check/cost
-- question: which attempts have a cost below zero, one that is no amount of money, or one without a currency?
-- input: selected_attempt
-- output: one row an offending attempt
SELECT file_id, line, request_id, cost::DOUBLE AS cost, currency
FROM selected_attempt WHERE cost < 0 OR cost <> 0 AND currency IS NULL
   -- a currency stands wherever a cost was logged: what no column can hold (1e308, a word) is NULL
   OR cost IS NULL AND currency IS NOT NULL
ORDER BY request_key, attempt_no
