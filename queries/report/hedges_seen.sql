-- name: hedges_seen
-- question: what did the copies that are already in the log do?
-- input: TEMP tables request and selected_attempt
-- output: one row a model: copies per request, wins per copy, cancels by both denominators, refused copies, delay of the copies in ms
WITH copies AS (
    -- where a row is a whole request, a copy that did not answer is not in it: it stands at the request's start, and when it was sent is unknown
    SELECT p.model, h.request_key, h.status, h.won, h.http_status,
           CASE WHEN h.e2e_ns IS NOT NULL THEN h.arrival_ns - p.arrival_ns END AS delay_ns
    FROM selected_attempt h JOIN selected_attempt p ON p.request_key = h.request_key AND p.attempt_no = 0
    WHERE h.cause = 'hedge' AND h.attempt_no > 0
),
cancels AS (
    SELECT r.model, count(*) AS cancelled
    FROM selected_attempt a JOIN request r USING (request_key)
    WHERE r.hedges > 0 AND a.status = 'censored' GROUP BY r.model
),
everything AS (SELECT model, count(*) AS requests FROM request GROUP BY model)
SELECT e.model, e.requests, count(c.request_key) AS copies, round(count(c.request_key) / e.requests, 4) AS copies_per_request,
       round(count(*) FILTER (c.won) / nullif(count(c.request_key), 0), 4) AS wins_per_copy,
       round(coalesce(any_value(x.cancelled), 0) / e.requests, 4) AS cancels_per_request,
       round(coalesce(any_value(x.cancelled), 0) / nullif(count(c.request_key), 0), 4) AS cancels_per_hedge,
       count(*) FILTER (c.http_status = 429) AS refused_by_rate_limit,
       round(median(c.delay_ns) / 1e6, 1) AS delay_p50_ms
FROM everything e LEFT JOIN copies c ON c.model IS NOT DISTINCT FROM e.model
LEFT JOIN cancels x ON x.model IS NOT DISTINCT FROM e.model
GROUP BY e.model, e.requests ORDER BY e.requests DESC, e.model
