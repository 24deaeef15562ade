-- name: lengths
-- question: how does time grow with the length of the answer?
-- input: TEMP tables request, component and output_length
-- output: one row a doubling of the output length, ms and ms a token
SELECT floor(log2(greatest(o.output_tokens, 1)))::INTEGER AS doubling, min(o.output_tokens) AS from_tokens, max(o.output_tokens) AS to_tokens,
       count(*) AS requests, round(median(r.e2e_ns) / 1e6, 1) AS e2e_p50_ms, round(median(r.ttft_ns) / 1e6, 1) AS ttft_p50_ms,
       round(median(c.decode_ns / greatest(o.output_tokens - 1, 1)) / 1e6, 3) AS decode_ms_per_token
FROM request r JOIN output_length o USING (request_key) LEFT JOIN component c USING (request_key)
WHERE r.status = 'ok' AND o.output_tokens IS NOT NULL AND NOT coalesce(r.cache_hit, FALSE)
GROUP BY doubling ORDER BY doubling
