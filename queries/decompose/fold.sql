-- name: decompose/fold
-- question: which model-call spans tell of a call that another span tells of too (a framework and the SDK below it both trace)?
-- input: attempt
-- output: TEMP TABLE folded_attempt, one row an attempt that is left out. Of two nested spans the one that observes less goes, and the outer
--         one if both observe the same; an outer span around several calls is no call of its own.
CREATE OR REPLACE TEMP TABLE folded_attempt AS
WITH inner_span AS (
    SELECT rowid AS attempt_row, format, turn_id, parent_id,
           (ttft_ns IS NOT NULL)::INTEGER + (completion_tokens IS NOT NULL)::INTEGER + (replica IS NOT NULL)::INTEGER AS seen
    FROM attempt WHERE parent_id IS NOT NULL
),
pair AS (
    SELECT p.rowid AS outer_row, c.attempt_row AS inner_row, c.seen AS inner_seen,
           (p.ttft_ns IS NOT NULL)::INTEGER + (p.completion_tokens IS NOT NULL)::INTEGER + (p.replica IS NOT NULL)::INTEGER AS outer_seen,
           count(*) OVER (PARTITION BY p.rowid) AS calls
    FROM inner_span c JOIN attempt p ON p.attempt_id = c.parent_id AND p.turn_id = c.turn_id AND p.format = c.format
)
SELECT DISTINCT CASE WHEN calls = 1 AND outer_seen > inner_seen THEN inner_row ELSE outer_row END AS attempt_row FROM pair;
