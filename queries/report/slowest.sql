-- name: slowest
-- question: which 20 requests took longest, and where did their time go?
-- input: TEMP tables request and component, one row a logical request
-- output: one row a request, slowest first, ms
SELECT r.request_id, r.model, r.route, r.replica, make_timestamp_ns(r.arrival_ns) AS arrival_utc,
       round(r.e2e_ns / 1e6, 1) AS e2e_ms, round(r.ttft_ns / 1e6, 1) AS ttft_ms,
       round(c.queue_ns / 1e6, 1) AS queue_ms, round(c.prefill_ns / 1e6, 1) AS prefill_ms,
       round(c.unsplit_ns / 1e6, 1) AS unsplit_ms, round(c.decode_ns / 1e6, 1) AS decode_ms,
       round(c.tool_wait_ns / 1e6, 1) AS tool_wait_ms, round(c.other_ns / 1e6, 1) AS other_ms,
       r.prompt_tokens, r.completion_tokens, r.attempts
FROM request r LEFT JOIN component c USING (request_key)
WHERE r.status = 'ok'
ORDER BY r.e2e_ns DESC NULLS LAST, r.request_key
LIMIT 20
