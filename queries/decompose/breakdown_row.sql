-- name: decompose/breakdown_row
-- question: what does each request contribute to its group?
-- input: request, component, request_dimension
-- output: one row a logical request in order: code (its group, dense from 0 in key order), status, times in ns, parts with basis
-- {by} is replaced by names from the closed list of dimensions
SELECT d.code,
       CASE WHEN coalesce(r.cache_hit, FALSE) THEN 1 WHEN r.status = 'error' THEN 2 WHEN r.status = 'censored' THEN 3 ELSE 0 END AS kind,
       r.attempts, r.weight, r.e2e_ns, r.ttft_ns, coalesce(r.streamed, TRUE) AS may_stream,
       CASE r.ttft_basis WHEN 'first_token' THEN 0 WHEN 'first_byte' THEN 1 WHEN 'engine' THEN 2 END AS ttft_basis,
       c.queue_ns, c.prefill_ns, c.unsplit_ns, c.decode_ns, c.tool_wait_ns, c.other_ns,
       CASE c.queue_basis WHEN 'measured' THEN 0 WHEN 'derived' THEN 1 WHEN 'estimated' THEN 2 ELSE 3 END AS queue_basis,
       CASE c.prefill_basis WHEN 'measured' THEN 0 WHEN 'derived' THEN 1 WHEN 'estimated' THEN 2 ELSE 3 END AS prefill_basis,
       CASE c.unsplit_basis WHEN 'measured' THEN 0 WHEN 'derived' THEN 1 WHEN 'estimated' THEN 2 ELSE 3 END AS unsplit_basis,
       CASE c.decode_basis WHEN 'measured' THEN 0 WHEN 'derived' THEN 1 WHEN 'estimated' THEN 2 ELSE 3 END AS decode_basis,
       CASE c.tool_wait_basis WHEN 'measured' THEN 0 WHEN 'derived' THEN 1 WHEN 'estimated' THEN 2 ELSE 3 END AS tool_wait_basis,
       CASE c.other_basis WHEN 'measured' THEN 0 WHEN 'derived' THEN 1 WHEN 'estimated' THEN 2 ELSE 3 END AS other_basis
FROM request r
JOIN (SELECT request_key, dense_rank() OVER (ORDER BY {by}) - 1 AS code FROM request_dimension) d ON d.request_key = r.request_key
LEFT JOIN component c ON c.request_key = r.request_key
ORDER BY code, r.request_key;
