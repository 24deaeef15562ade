-- name: ingest/coverage
-- Input: `observed`. Share of attempts that the logs observed each value of; one row. Cache hits have no engine phases and are left out there.
SELECT round(avg((e2e_ns IS NOT NULL)::INTEGER), 4) AS e2e,
       round(avg(coalesce(ttft_ns > 0, false)::INTEGER), 4) AS ttft,
       round(avg((queue_ns IS NOT NULL)::INTEGER), 4) AS queue,
       round(avg((prefill_ns IS NOT NULL)::INTEGER), 4) AS prefill,
       round(avg((coalesce(decode_ns, CASE WHEN ttft_ns > 0 THEN e2e_ns - ttft_ns END) IS NOT NULL)::INTEGER), 4) AS decode,
       round(avg((tool_wait_ns IS NOT NULL)::INTEGER), 4) AS tool_wait,
       round(avg((replica IS NOT NULL)::INTEGER), 4) AS replica,
       round(avg((prompt_tokens IS NOT NULL)::INTEGER), 4) AS prompt_tokens,
       round(avg((completion_tokens IS NOT NULL)::INTEGER), 4) AS completion_tokens,
       round(avg((cost IS NOT NULL)::INTEGER), 4) AS cost
FROM observed
