-- name: decompose/diagnosis_row
-- question: what is known of each request that an engine served?
-- input: request, selected_attempt, component, output_length
-- output: one row a logical request that was no cache hit, in order of arrival (rows without a time last); model codes are those of decompose/diagnosis_attempt, 0 = not logged
WITH models AS (SELECT model, row_number() OVER (ORDER BY model) AS code FROM (SELECT DISTINCT model FROM selected_attempt WHERE model IS NOT NULL))
SELECT r.arrival_ns, r.e2e_ns, r.ttft_ns, r.weight, r.resolution_ns,
       CASE r.status WHEN 'ok' THEN 0 WHEN 'error' THEN 1 ELSE 2 END AS status,
       coalesce(models.code, 0) AS model, o.output_tokens, r.prompt_tokens - coalesce(r.cached_tokens, 0) AS uncached_tokens,
       c.queue_ns, c.prefill_ns, c.unsplit_ns, c.decode_ns, c.tool_wait_ns, c.other_ns
FROM request r
LEFT JOIN component c ON c.request_key = r.request_key
LEFT JOIN output_length o ON o.request_key = r.request_key
LEFT JOIN models ON models.model = r.model
WHERE NOT coalesce(r.cache_hit, FALSE)
ORDER BY r.request_key;
