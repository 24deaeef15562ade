-- name: decompose/skew
-- question: whose clock is behind the one that timed the start? A first token cannot come before it.
-- input: selected_attempt
-- output: one row a replica with such rows, the worst first: behind_ns is the least that its clock must be behind by
SELECT replica, count(*) AS attempts, -min(logged_ttft_ns) AS behind_ns
FROM selected_attempt WHERE ttft_issue = 'clock_skew'
GROUP BY replica ORDER BY behind_ns DESC, replica;
