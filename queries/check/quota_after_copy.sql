-- name: check/quota_after_copy
-- question: which ordinary calls were refused by a rate limit within a minute after a copy had been? hedging may be eating the quota
-- input: selected_attempt
-- output: one row a refused call that is no copy, with the copy's request beside it
-- A minute is the window of the usual quotas; calls and copies count together only under one provider and model.
SELECT r.file_id, r.line, r.request_id, r.replica, c.request_id AS copy_of
FROM (SELECT * FROM selected_attempt WHERE http_status = 429 AND cause <> 'hedge' AND arrival_ns IS NOT NULL) r
ASOF JOIN (SELECT * FROM selected_attempt WHERE http_status = 429 AND cause = 'hedge' AND arrival_ns IS NOT NULL) c
  ON coalesce(c.provider, '') = coalesce(r.provider, '') AND coalesce(c.model, '') = coalesce(r.model, '') AND c.arrival_ns <= r.arrival_ns
WHERE r.arrival_ns - c.arrival_ns <= 60000000000
ORDER BY r.arrival_ns, r.request_key, r.attempt_no
