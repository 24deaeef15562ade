-- name: decompose/selected_attempt
-- question: which attempts are looked at, and which of their times can be believed?
-- input: observed, attempt_link, selected_key (one row a chosen logical request)
-- output: TEMP TABLE selected_attempt, one row an attempt, columns of attempt with attempt_no, cause, status and won filled,
--         plus request_key, end_ns, logged_ttft_ns, ttft_issue (why a logged TTFT is not one) and part_issue
CREATE OR REPLACE TEMP TABLE selected_attempt AS
WITH judged AS (
    SELECT a.* EXCLUDE (attempt_row, attempt_no, cause, status, won), l.request_key, l.generation, l.attempt_no::INTEGER AS attempt_no,
           l.cause, l.status, l.won,
           a.arrival_ns + a.e2e_ns AS end_ns,
           CASE WHEN a.ttft_ns IS NULL THEN NULL
                WHEN a.ttft_ns < 0 THEN 'clock_skew'
                WHEN a.ttft_ns = 0 THEN 'ttft_is_zero'
                WHEN a.ttft_ns > a.e2e_ns + coalesce(a.resolution_ns, 0) THEN 'ttft_after_end'
                -- A whole answer has no first token on the wire; an engine knows its own.
                WHEN a.streamed = FALSE AND coalesce(a.ttft_basis, '') <> 'engine' THEN 'not_streamed'
                WHEN a.ttft_ns >= a.e2e_ns AND coalesce(a.completion_tokens, 2) > 1 AND l.status = 'ok' THEN 'ttft_equals_e2e'
           END AS ttft_issue,
           CASE WHEN least(a.queue_ns, a.prefill_ns, a.decode_ns, a.tool_wait_ns) < 0 THEN 'negative_part'
                WHEN greatest(a.queue_ns, a.prefill_ns, a.decode_ns, a.tool_wait_ns) > a.e2e_ns + coalesce(a.resolution_ns, 0)
                THEN 'part_exceeds_e2e' END AS part_issue
    FROM observed a
    JOIN attempt_link l ON a.attempt_row = l.attempt_row
    SEMI JOIN selected_key k ON k.request_key = l.request_key
)
SELECT * EXCLUDE (ttft_ns), ttft_ns AS logged_ttft_ns,
       CASE WHEN ttft_issue IS NULL AND ttft_ns IS NOT NULL THEN least(ttft_ns, e2e_ns) END AS ttft_ns
FROM judged;
