-- name: decompose/selected_key
-- question: which logical requests lie in the window and scope?
-- input: observed, attempt_link, where_key (one row a request that passes --where; not read if unused)
-- output: TEMP TABLE selected_key, one row a chosen logical request
-- parameters: from_ns (included), to_ns (included), model, route (exact), NULL = no limit; filtered (TRUE = where_key counts)
CREATE OR REPLACE TEMP TABLE selected_key AS
SELECT l.request_key
FROM attempt_link l JOIN observed a ON a.attempt_row = l.attempt_row
WHERE l.attempt_no = 0
  AND ($from_ns IS NULL OR l.first_arrival_ns >= $from_ns)
  AND ($to_ns IS NULL OR l.first_arrival_ns <= $to_ns)
  AND ($model IS NULL OR a.model = $model)
  AND ($route IS NULL OR a.route = $route)
  AND (NOT $filtered OR l.request_key IN (SELECT request_key FROM where_key));
