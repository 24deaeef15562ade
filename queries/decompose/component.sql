-- name: decompose/component
-- question: where did the time of each answered request go?
-- input: request, prefill_law (one row a model whose prefill could be fitted: model, base_ns, per_token_ns, assume_uncached)
-- output: TEMP TABLE component, one row an answered request: six parts in integer ns with their basis; NULL = not observed.
--         The parts that are not NULL sum to e2e_ns exactly; `other` takes what nothing explains and may be negative.
CREATE OR REPLACE TEMP TABLE component AS
WITH believed AS (
    SELECT r.request_key, r.e2e_ns, r.before_winner_ns, r.winner_ttft_ns AS ttft_ns, coalesce(r.resolution_ns, 1) AS resolution_ns,
           r.ttft_basis,
           -- The queue of a proxy is its wait for a connection: behind it the engine has a queue of its own, which is not prefill.
           r.observer = 'edge' AS is_proxy,
           -- A queue longer than the time to the first token, or a negative part, is an offender (see the checks): not used.
           CASE WHEN r.queue_ns >= 0 AND r.queue_ns <= coalesce(r.winner_ttft_ns, r.winner_e2e_ns) + coalesce(r.resolution_ns, 1)
                THEN r.queue_ns END AS queue_ns,
           CASE WHEN r.prefill_ns >= 0 AND r.prefill_ns <= coalesce(r.winner_ttft_ns, r.winner_e2e_ns) + coalesce(r.resolution_ns, 1)
                THEN r.prefill_ns END AS prefill_ns,
           CASE WHEN r.decode_ns >= 0 AND r.decode_ns <= r.winner_e2e_ns + coalesce(r.resolution_ns, 1) THEN r.decode_ns END AS decode_ns,
           CASE WHEN r.tool_wait_ns >= 0 AND r.tool_wait_ns <= r.winner_e2e_ns + coalesce(r.resolution_ns, 1)
                THEN r.tool_wait_ns END AS tool_wait_ns,
           coalesce(r.queue_basis, 'measured') AS queue_basis, coalesce(r.prefill_basis, 'measured') AS prefill_basis,
           coalesce(r.decode_basis, 'measured') AS decode_basis, coalesce(r.tool_wait_basis, 'measured') AS tool_wait_basis,
           -- NULL where the law cannot speak: no law, no prompt length, or cached tokens neither logged nor declared none.
           CASE WHEN r.cached_tokens IS NOT NULL OR p.assume_uncached
                THEN round(p.base_ns + p.per_token_ns * (r.prompt_tokens - least(coalesce(r.cached_tokens, 0), r.prompt_tokens)))::BIGINT
           END AS law_ns
    FROM request r LEFT JOIN prefill_law p ON p.model = coalesce(r.model, '')
    WHERE r.status = 'ok' AND r.e2e_ns IS NOT NULL
),
front AS (
    SELECT *,
           CASE WHEN queue_ns IS NOT NULL THEN queue_ns
                WHEN prefill_ns IS NOT NULL AND ttft_ns IS NOT NULL THEN greatest(ttft_ns - prefill_ns, 0)
                WHEN prefill_ns IS NULL AND ttft_ns IS NOT NULL AND ttft_basis <> 'first_byte' AND law_ns IS NOT NULL
                THEN ttft_ns - least(ttft_ns, law_ns) END AS queue,
           CASE WHEN queue_ns IS NOT NULL THEN queue_basis
                WHEN prefill_ns IS NOT NULL AND ttft_ns IS NOT NULL THEN 'derived'
                WHEN prefill_ns IS NULL AND ttft_ns IS NOT NULL AND ttft_basis <> 'first_byte' AND law_ns IS NOT NULL
                THEN 'estimated' END AS queue_how,
           CASE WHEN prefill_ns IS NOT NULL THEN prefill_ns
                WHEN queue_ns IS NOT NULL AND ttft_ns IS NOT NULL AND NOT is_proxy THEN greatest(ttft_ns - queue_ns, 0)
                WHEN queue_ns IS NULL AND ttft_ns IS NOT NULL AND ttft_basis <> 'first_byte' AND law_ns IS NOT NULL
                THEN least(ttft_ns, law_ns) END AS prefill,
           CASE WHEN prefill_ns IS NOT NULL THEN prefill_basis
                WHEN queue_ns IS NOT NULL AND ttft_ns IS NOT NULL AND NOT is_proxy THEN 'derived'
                WHEN queue_ns IS NULL AND ttft_ns IS NOT NULL AND ttft_basis <> 'first_byte' AND law_ns IS NOT NULL
                THEN 'estimated' END AS prefill_how
    FROM believed
),
back AS (
    SELECT *,
           -- The wait for failed or slower attempts before the winner was sent comes before the first token and has no finer name.
           CASE WHEN prefill IS NULL AND ttft_ns IS NOT NULL THEN before_winner_ns + greatest(ttft_ns - coalesce(queue, 0), 0)
                WHEN before_winner_ns > 0 THEN before_winner_ns END AS unsplit,
           CASE WHEN decode_ns IS NOT NULL THEN decode_ns
                WHEN ttft_ns IS NOT NULL THEN e2e_ns - before_winner_ns - ttft_ns - coalesce(tool_wait_ns, 0)
                -- An engine that timed queue and prefill has no first token on the wire, but the rest is its decode.
                WHEN queue_ns IS NOT NULL AND prefill_ns IS NOT NULL
                THEN e2e_ns - before_winner_ns - queue_ns - prefill_ns - coalesce(tool_wait_ns, 0) END AS raw_decode
    FROM front
),
parts AS (
    SELECT request_key, e2e_ns, resolution_ns, queue, queue_how, prefill, prefill_how, unsplit, tool_wait_ns, tool_wait_basis,
           CASE WHEN raw_decode >= 0 THEN raw_decode WHEN raw_decode >= -resolution_ns THEN 0 END AS decode,
           CASE WHEN decode_ns IS NOT NULL THEN decode_basis WHEN raw_decode >= -resolution_ns THEN 'derived' END AS decode_how
    FROM back
),
rest AS (
    SELECT *, e2e_ns - coalesce(queue, 0) - coalesce(prefill, 0) - coalesce(unsplit, 0) - coalesce(decode, 0)
              - coalesce(tool_wait_ns, 0) AS other,
           greatest(coalesce(queue, 0), coalesce(prefill, 0), coalesce(unsplit, 0), coalesce(decode, 0), coalesce(tool_wait_ns, 0)) AS largest
    FROM parts
),
folded AS (
    -- What is left below the clock's resolution is rounding: it goes to the largest part, the sum stays exact.
    SELECT *, CASE WHEN other <> 0 AND abs(other) <= resolution_ns AND largest > abs(other) THEN
                   CASE largest WHEN decode THEN 'decode' WHEN queue THEN 'queue' WHEN prefill THEN 'prefill'
                                WHEN unsplit THEN 'unsplit' WHEN tool_wait_ns THEN 'tool_wait' END END AS takes
    FROM rest
)
SELECT request_key, e2e_ns,
       queue + CASE WHEN takes = 'queue' THEN other ELSE 0 END AS queue_ns, coalesce(queue_how, 'unknown') AS queue_basis,
       prefill + CASE WHEN takes = 'prefill' THEN other ELSE 0 END AS prefill_ns, coalesce(prefill_how, 'unknown') AS prefill_basis,
       unsplit + CASE WHEN takes = 'unsplit' THEN other ELSE 0 END AS unsplit_ns,
       CASE WHEN unsplit IS NULL THEN 'unknown' ELSE 'derived' END AS unsplit_basis,
       decode + CASE WHEN takes = 'decode' THEN other ELSE 0 END AS decode_ns, coalesce(decode_how, 'unknown') AS decode_basis,
       tool_wait_ns + CASE WHEN takes = 'tool_wait' THEN other ELSE 0 END AS tool_wait_ns,
       CASE WHEN tool_wait_ns IS NULL THEN 'unknown' ELSE tool_wait_basis END AS tool_wait_basis,
       CASE WHEN takes IS NULL THEN other ELSE 0 END AS other_ns,
       -- With no part known nothing was subtracted: the whole is unexplained, not measured to be something else.
       CASE WHEN largest = 0 AND queue IS NULL AND prefill IS NULL AND unsplit IS NULL AND decode IS NULL AND tool_wait_ns IS NULL
            THEN 'unknown' ELSE 'derived' END AS other_basis
FROM folded
ORDER BY request_key;
