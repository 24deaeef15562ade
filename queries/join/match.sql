-- name: join/match
-- question: which row of the outer observer is the same call as which row of the inner one?
-- input: joined_attempt and join_outer_id (outer rows and their ids), attempt and join_id (inner ones); $outers (formats), $same (both
--        stand at the same place, so neither is inside the other), $clocks_ns (how far two clocks may be apart)
-- output: TEMP TABLE join_found, one row an inner row that shares an id with an outer one: inner_row, outer_row, id, verdict =
--         joined    the same call
--         part      a further choice or prompt of a call whose longest row is joined
--         copy      an attempt that only the inner observer saw, of the request of outer_row
--         too_long  longer than the outer row it would lie in: one of them is not what it seems
--         ambiguous several rows with one id, and nothing tells which is which
--         far       the only rows with its id are of another time
-- Clocks are compared only to tell ids that come back later; what tells attempts of one id apart is, in this order: the replica (by the
-- names seen on calls that are alone with their id), failure, length, the number of tokens, the order of their starts if there are as
-- many on both sides, the same among those that were answered.
CREATE OR REPLACE TEMP TABLE join_found AS
WITH near AS (
    SELECT DISTINCT k.attempt_row AS inner_row, o.attempt_row AS outer_row, k.id
    FROM join_id k JOIN join_outer_id o ON o.id = k.id AND list_contains($outers, o.format)
),
-- of several shared ids the one that says most
best AS (
    SELECT DISTINCT ON (inner_row) inner_row, id
    FROM (SELECT inner_row, id, count(*) AS outers FROM near GROUP BY inner_row, id)
    ORDER BY inner_row, outers, id
),
begun AS (
    SELECT b.id, b.inner_row, a.arrival_ns, a.e2e_ns, a.status, a.replica, a.completion_tokens, coalesce(a.resolution_ns, 1) AS resolution_ns,
           coalesce(a.arrival_ns - lag(a.arrival_ns) OVER sent <= 10000000, FALSE) AS together
    FROM best b JOIN attempt a ON a.rowid = b.inner_row
    WINDOW sent AS (PARTITION BY b.id, a.replica ORDER BY a.arrival_ns, a.rowid)
),
-- choices (n > 1) and prompt lists give several rows that begin together on one engine
numbered AS (
    SELECT *, count(*) FILTER (NOT together) OVER (PARTITION BY id, replica ORDER BY arrival_ns, inner_row ROWS UNBOUNDED PRECEDING) AS call
    FROM begun
),
inner_call AS (
    SELECT *, first_value(inner_row) OVER (PARTITION BY id, replica, call ORDER BY e2e_ns DESC NULLS LAST, status = 'ok' DESC, arrival_ns, inner_row) AS longest
    FROM numbered
),
pair AS (
    SELECT i.id, i.inner_row, o.attempt_row AS outer_row, o.arrival_ns AS outer_arrival, i.arrival_ns AS inner_arrival,
           o.replica AS outer_replica, i.replica AS inner_replica, o.status = 'ok' AND i.status = 'ok' AS answered,
           o.status = 'ok' AND i.status = 'error' AS contradict,
           coalesce(o.completion_tokens = i.completion_tokens, FALSE) AS as_long,
           $same OR o.status <> 'ok' OR coalesce(i.e2e_ns <= o.e2e_ns + i.resolution_ns + coalesce(o.resolution_ns, 1), TRUE) AS fits,
           count(*) OVER (PARTITION BY i.inner_row) = 1 AND count(*) OVER (PARTITION BY o.attempt_row) = 1 AS alone
    FROM inner_call i
    JOIN near n ON n.inner_row = i.inner_row AND n.id = i.id
    JOIN joined_attempt o ON o.attempt_row = n.outer_row
    WHERE i.inner_row = i.longest
      AND coalesce(i.arrival_ns BETWEEN o.arrival_ns - $clocks_ns AND o.arrival_ns + coalesce(o.e2e_ns, 0) + $clocks_ns, TRUE)
),
place AS (
    SELECT outer_replica, arg_max(inner_replica, calls) AS known_replica
    FROM (SELECT outer_replica, inner_replica, count(*) AS calls FROM pair
          WHERE alone AND fits AND outer_replica IS NOT NULL AND inner_replica IS NOT NULL GROUP BY ALL)
    GROUP BY outer_replica HAVING max(calls) >= 0.95 * sum(calls)
),
possible AS (
    SELECT p.*
    FROM pair p LEFT JOIN place l ON l.outer_replica = p.outer_replica
    WHERE fits AND (alone OR (coalesce(l.known_replica = p.inner_replica, TRUE) AND NOT contradict))
    QUALIFY as_long OR NOT bool_or(as_long) OVER (PARTITION BY outer_row)
),
sure AS (
    SELECT inner_row, outer_row FROM possible
    QUALIFY count(*) OVER (PARTITION BY inner_row) = 1 AND count(*) OVER (PARTITION BY outer_row) = 1
),
open_pair AS (
    SELECT id, inner_row, outer_row, inner_arrival, outer_arrival, answered,
           count(*) OVER (PARTITION BY inner_row) AS outers, count(*) OVER (PARTITION BY outer_row) AS inners
    FROM possible
    WHERE inner_row NOT IN (SELECT inner_row FROM sure) AND outer_row NOT IN (SELECT outer_row FROM sure)
),
as_many AS (
    SELECT id FROM open_pair GROUP BY id HAVING count(DISTINCT inner_row) = count(DISTINCT outer_row)
),
-- as many on both sides: what can be only one of the others is that one
only_choice AS (
    SELECT inner_row, outer_row FROM open_pair SEMI JOIN as_many USING (id) WHERE outers = 1 OR inners = 1
    QUALIFY count(*) OVER (PARTITION BY inner_row) = 1 AND count(*) OVER (PARTITION BY outer_row) = 1
),
placed AS (
    SELECT id, inner_row, outer_row,
           dense_rank() OVER (PARTITION BY id ORDER BY outer_arrival, outer_row) AS outer_place,
           dense_rank() OVER (PARTITION BY id ORDER BY inner_arrival, inner_row) AS inner_place
    FROM (
        SELECT * FROM open_pair SEMI JOIN as_many USING (id)
        WHERE inner_row NOT IN (SELECT inner_row FROM only_choice) AND outer_row NOT IN (SELECT outer_row FROM only_choice)
        UNION ALL
        SELECT * FROM open_pair ANTI JOIN as_many USING (id) WHERE answered
    )
),
in_order AS (
    SELECT inner_row, outer_row
    FROM (SELECT *, max(outer_place) OVER told AS outers, max(inner_place) OVER told AS inners FROM placed WINDOW told AS (PARTITION BY id))
    WHERE outers = inners AND outer_place = inner_place
    QUALIFY count(*) OVER (PARTITION BY id) = outers
),
same_call AS (
    FROM sure UNION ALL FROM only_choice UNION ALL FROM in_order
),
rest AS (
    SELECT i.inner_row, i.id, i.longest,
           -- an attempt that could still be one of the outer rows is not one more
           bool_or(p.outer_row IN (SELECT outer_row FROM same_call)) AS request_known,
           bool_or(q.outer_row IS NOT NULL AND q.outer_row NOT IN (SELECT outer_row FROM same_call)) AS could_be,
           bool_or(NOT p.fits) AS is_long, count(p.outer_row) = 0 AS is_far,
           arg_min(p.outer_row, coalesce(p.outer_arrival, 0)) AS outer_row
    FROM inner_call i
    LEFT JOIN pair p ON p.inner_row = i.longest
    LEFT JOIN possible q ON q.inner_row = i.longest AND q.outer_row = p.outer_row
    WHERE i.longest NOT IN (SELECT inner_row FROM same_call)
    GROUP BY i.inner_row, i.id, i.longest
)
SELECT i.inner_row, s.outer_row, i.id, CASE WHEN i.inner_row = i.longest THEN 'joined' ELSE 'part' END AS verdict
FROM inner_call i JOIN same_call s ON s.inner_row = i.longest
UNION ALL
SELECT inner_row, outer_row, id,
       CASE WHEN is_far THEN 'far'
            WHEN request_known AND NOT could_be THEN CASE WHEN inner_row = longest THEN 'copy' ELSE 'part' END
            WHEN is_long AND NOT could_be THEN 'too_long'
            ELSE 'ambiguous' END
FROM rest
