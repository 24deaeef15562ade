-- name: decompose/link
-- question: which attempts belong to one logical request, in which order, and why was each sent?
-- input: observed (one row an attempt, whoever saw it), folded_attempt (those that repeat another one)
-- output: TEMP TABLE attempt_link, one row an attempt: request_key, attempt_no, cause, status, won, first_arrival_ns, first
-- parameters: from_ns, to_ns (attempts outside are not looked at; NULL = no limit)
-- An id that comes back after its answer was complete, with no attempt number or role logged, is a new request.
CREATE OR REPLACE TEMP TABLE attempt_link AS
WITH thin AS (
    SELECT attempt_row, format, request_id, line, record, attempt_no, cause, won, arrival_ns,
           arrival_ns + e2e_ns AS end_ns,
           coalesce(resolution_ns, 1) AS resolution_ns,
           -- A hang-up or a timeout only says that the answer would have taken longer.
           CASE WHEN status = 'error' AND (http_status IN (499, 504) OR error_kind IN ('timeout', 'client_gone', 'loser'))
                THEN 'censored' ELSE status END AS status
    FROM observed
    WHERE (($from_ns IS NULL OR arrival_ns >= $from_ns) AND ($to_ns IS NULL OR arrival_ns <= $to_ns)
       OR arrival_ns IS NULL)
      AND attempt_row NOT IN (SELECT attempt_row FROM folded_attempt)
),
shared_id AS (
    SELECT format, request_id,
           count(attempt_no) = count(*) AND count(DISTINCT attempt_no) = count(*) AS numbered
    FROM thin GROUP BY format, request_id HAVING count(*) > 1
),
ordered AS (
    SELECT thin.*, numbered,
           row_number() OVER sent AS position,
           max(end_ns) OVER (sent ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until_ns,
           max(CASE WHEN status = 'ok' THEN end_ns END) OVER (sent ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS answered_ns
    FROM thin JOIN shared_id USING (format, request_id)
    WINDOW sent AS (PARTITION BY format, request_id
                    ORDER BY CASE WHEN numbered THEN attempt_no END, CASE WHEN cause = 'primary' THEN 0 ELSE 1 END,
                             arrival_ns NULLS LAST, attempt_no, line, record)
),
reused AS (
    SELECT *, sum(CASE WHEN answered_ns IS NOT NULL AND arrival_ns >= busy_until_ns
                        AND NOT numbered AND coalesce(cause, 'primary') = 'primary' THEN 1 ELSE 0 END)
              OVER (PARTITION BY format, request_id ORDER BY position ROWS UNBOUNDED PRECEDING) AS generation
    FROM ordered
),
many AS (
    SELECT attempt_row, format, request_id, line, record, generation, status, arrival_ns, end_ns,
           row_number() OVER told - 1 AS attempt_no,
           -- A source that names its primaries names its copies too: what follows one without a name is a retry, even if its
           -- row begins at the request (LiteLLM streams after a failed attempt).
           coalesce(cause, CASE WHEN row_number() OVER told = 1 THEN 'primary'
                                WHEN bool_or(cause = 'primary') OVER (told ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 'retry'
                                WHEN arrival_ns < max(end_ns) OVER (told ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) - resolution_ns
                                THEN 'hedge' ELSE 'retry' END) AS cause,
           row_number() OVER (PARTITION BY format, request_id, generation
                              ORDER BY status = 'ok' DESC, CASE WHEN won THEN 0 WHEN won IS NULL THEN 1 ELSE 2 END,
                                       end_ns NULLS LAST, position) = 1 AND status = 'ok' AS won,
           min(arrival_ns) OVER (PARTITION BY format, request_id, generation) AS first_arrival_ns
    FROM reused
    WINDOW told AS (PARTITION BY format, request_id, generation ORDER BY position)
),
linked AS (
    SELECT attempt_row, format, request_id, line, record, generation, status, attempt_no, cause, won, first_arrival_ns FROM many
    UNION ALL
    SELECT attempt_row, format, request_id, line, record, 0, status, 0, coalesce(cause, 'primary'), status = 'ok', arrival_ns
    FROM thin ANTI JOIN shared_id USING (format, request_id)
)
-- Dense numbers in order of arrival, so that every table here is ordered by one integer.
SELECT dense_rank() OVER (ORDER BY first_arrival_ns NULLS LAST, format, request_id, generation) AS request_key,
       attempt_row, generation, attempt_no, cause, status, won, first_arrival_ns
FROM linked;
