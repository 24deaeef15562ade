-- name: decompose/request_dimension
-- question: by what can requests be grouped?
-- input: request
-- output: TEMP VIEW request_dimension, one row a logical request, every dimension as text; NULL = not observed
-- The view takes the time zone from tz_choice (one row), so that it can be asked without parameters.
CREATE OR REPLACE TEMP VIEW request_dimension AS
WITH told AS (
    SELECT r.*, timezone((SELECT tz FROM tz_choice), to_timestamp(r.arrival_ns // 1000000000)) AS local_time FROM request r
)
SELECT request_key, replica, model, route, segment, provider, pool, observer,
       strftime(local_time, '%H:00') AS hour,
       strftime(local_time, '%Y-%m-%d') AS day,
       strftime(local_time, '%a') AS weekday,
       CASE streamed WHEN TRUE THEN 'true' WHEN FALSE THEN 'false' END AS streamed,
       CASE tools_offered WHEN TRUE THEN 'true' WHEN FALSE THEN 'false' END AS tools_offered,
       CASE WHEN prompt_tokens < 512 THEN 'prompt_under_512' WHEN prompt_tokens < 2048 THEN 'prompt_512_to_2047'
            WHEN prompt_tokens < 8192 THEN 'prompt_2048_to_8191' WHEN prompt_tokens IS NOT NULL THEN 'prompt_8192_and_more'
       END AS size_class,
       CASE WHEN hedges > 0 THEN 'hedged' WHEN retries > 0 THEN 'retried' ELSE 'single' END AS sends
FROM told;
