-- name: check/sums
-- question: which answered requests have parts that do not add up to their e2e time?
-- input: component, request
-- output: one row an offending request
SELECT r.file_id, r.line, r.request_id, c.e2e_ns,
       coalesce(c.queue_ns, 0) + coalesce(c.prefill_ns, 0) + coalesce(c.unsplit_ns, 0) + coalesce(c.decode_ns, 0)
       + coalesce(c.tool_wait_ns, 0) + c.other_ns AS sum_ns
FROM component c JOIN request r USING (request_key)
WHERE sum_ns IS DISTINCT FROM c.e2e_ns
ORDER BY r.request_key
