-- name: fleet/hour_counts
-- question: what does one hour hold, repetitions left out?
-- input: fleet_row, fleet_again, repeated, TEMP TABLE before: the requests and turns of the hour before
-- output: one row of counts that add up over hours: a request whose attempts lie in two hours counts in the first
WITH kept AS (
    FROM fleet_row ANTI JOIN repeated USING (file_id, line, record)
), reused AS (
    SELECT format, attempt_id FROM kept WHERE attempt_id IS NOT NULL AND hash(attempt_id) IN (FROM fleet_again)
    GROUP BY ALL HAVING min(content_hash) <> max(content_hash)
), scoped AS (
    SELECT request_id, turn_id, scope FROM kept UNION ALL FROM before
), crossing AS (
    SELECT request_id FROM scoped GROUP BY request_id HAVING min(scope) <> max(scope)
    UNION ALL
    SELECT turn_id FROM scoped WHERE turn_id IS NOT NULL GROUP BY turn_id HAVING min(scope) <> max(scope)
)
SELECT count(*) AS attempts,
       (SELECT count(*) FROM crossing) AS crossing,
       (SELECT count(DISTINCT request_id) FROM kept ANTI JOIN before USING (request_id)) AS requests,
       (SELECT count(*) FROM reused) AS reused,
       min(arrival_ns) AS first_ns, max(arrival_ns) AS last_ns,
       coalesce(list_sort(list(DISTINCT observer)), []) AS observers,
       count(e2e_ns) AS e2e, count(ttft_ns) AS ttft, count(queue_ns) AS queue, count(prefill_ns) AS prefill,
       count(coalesce(decode_ns, e2e_ns - ttft_ns)) AS decode, count(tool_wait_ns) AS tool_wait, count(replica) AS replica,
       count(prompt_tokens) AS prompt_tokens, count(completion_tokens) AS completion_tokens, count(cost) AS cost
FROM kept
