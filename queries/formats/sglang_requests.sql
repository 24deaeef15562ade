-- format: sglang_requests
-- title: SGLang request log, JSON, both generations of names
-- spec: sglang/srt/utils/request_logger.py and observability/req_time_stats.py
-- source: sglang serve --enable-metrics --log-requests --log-requests-format json --log-requests-level 0 --log-requests-target DIR
-- input: text
-- detect: /"event":\s*"request\.(received|finished)[^}]*"rid"/
-- clock: marks are wall clock of the server, epoch seconds; the line's own time is naive
-- resolution: 1us
-- observer: engine
-- observes: request_id, replica, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns,
--   decode_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status, error_kind, streamed
-- hint: without --enable-metrics only e2e and tokens are written. Clients that left have no finished event: read the gateway's log too
-- traps: lines are a bracketed time and then JSON ; a received event is no request of its own ; long lists hold the text "..." in their middle ;
--   forward_entry_time and prefill_finished_time are times ; queue_time was negative after retractions ; SGLANG_LOG_REQUEST_EXCEEDED_MS leaves
--   the fast ones out ; the line's own time is local and without a zone, used only where the marks are missing
WITH t AS (
    SELECT line, record, CASE WHEN regexp_matches(text, '"event":\s*"request\.') THEN TRY_CAST(regexp_extract(text, '^[^{]*(\{.*\})\s*$', 1) AS JSON) END AS j,
           contains(text, '"request.finished"') AS has_end
    FROM raw
), f AS (
    SELECT line, record, j->'$.out.meta_info' AS m, j->>'$.obj.stream' AS stream, j->>'$.timestamp' AS stamp, j->>'$.rid' AS rid
    FROM t WHERE has_end AND (j->>'$.event') = 'request.finished'
), v AS (
    SELECT line, record, stream, m->>'$.id' AS id, m->>'$.dp_rank' AS dp, m->>'$.finish_reason.type' AS finish,
           coalesce(TRY_CAST(m->>'$.finish_reason.status_code' AS INTEGER), 0) AS code,
           s_ns(m->>'$.request_received_ts') AS received, s_ns(m->>'$.e2e_latency') AS e2e, s_ns(m->>'$.queue_time') AS queue,
           s_ns(m->>'$.first_token_latency') AS first_token,
           coalesce(s_ns(m->>'$.prefill_finished_time'), s_ns(m->>'$.prefill_finished_ts')) AS prefilled,
           s_ns(m->>'$.forward_entry_time') AS entered,
           coalesce(s_ns(m->>'$.request_finished_ts'), s_ns(m->>'$.decode_finished_ts')) AS finished,
           TRY(s_ns(m->>'$.prefill_launch_latency') + coalesce(s_ns(m->>'$.prefill_launch_delay'), 0)) AS launched,
           to_count(m->>'$.prompt_tokens') AS prompt_tokens, to_count(m->>'$.cached_tokens') AS cached_tokens,
           to_count(m->>'$.completion_tokens') AS completion_tokens, to_count(m->>'$.reasoning_tokens') AS reasoning_tokens, stamp, rid
    FROM f
), c AS (
    SELECT *, coalesce(first_token, TRY(prefilled - received)) AS ttft,
           coalesce(TRY(prefilled - entered), launched) AS prefill, TRY(finished - prefilled) AS decode,
           least(coalesce(e2e, 86400000000000), 86400000000000) + 1000000 AS longest
    FROM v
), k AS (
    SELECT *,
           -- a queue of exactly 0 with no mark beside it was never written
           CASE WHEN queue BETWEEN 0 AND longest AND NOT (queue = 0 AND entered IS NULL AND prefilled IS NULL) THEN queue END AS queue_ns,
           CASE WHEN prefill > 0 AND prefill <= longest THEN prefill END AS prefill_ns,
           CASE WHEN decode BETWEEN 0 AND longest THEN decode END AS decode_ns,
           CASE WHEN ttft > 0 AND ttft <= e2e AND coalesce(completion_tokens, 1) > 0 THEN ttft END AS ttft_ns,
           CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM c
)
SELECT line, record, CASE WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, bad AS reason,
       nullif(concat_ws(',', ttft_fault(ttft, longest), coalesce(part_fault(queue, longest), part_fault(prefill, longest), part_fault(decode, longest)),
           CASE WHEN received IS NULL AND is_naive(stamp) THEN 'naive_time' END), '') AS note,
       coalesce(to_text(id), to_text(rid)) AS request_id, 'dp' || to_count(dp) AS replica, 'engine' AS observer,
       CASE WHEN received > 0 THEN received WHEN bad IS NULL THEN TRY(time_ns(stamp) - e2e) END AS arrival_ns,
       e2e AS e2e_ns, ttft_ns, CASE WHEN ttft_ns IS NOT NULL THEN 'engine' END AS ttft_basis,
       queue_ns, CASE WHEN queue_ns IS NOT NULL THEN 'measured' END AS queue_basis,
       prefill_ns, CASE WHEN prefill_ns IS NOT NULL THEN 'derived' END AS prefill_basis,
       decode_ns, CASE WHEN decode_ns IS NOT NULL THEN 'derived' END AS decode_basis,
       CAST(1000 AS BIGINT) AS resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens,
       CASE WHEN finish = 'abort' AND code >= 400 THEN coalesce(http_class(code), 'error') WHEN finish = 'abort' THEN 'censored' ELSE 'ok' END AS status,
       CASE WHEN finish = 'abort' AND code BETWEEN 400 AND 599 THEN code END AS http_status,
       CASE WHEN finish = 'abort' AND code >= 400 THEN coalesce(http_kind(code), 'upstream') WHEN finish = 'abort' THEN 'aborted' END AS error_kind,
       to_bool(stream) AS streamed
FROM k
UNION ALL BY NAME
SELECT line, record, CASE WHEN has_end AND j IS NULL THEN 'reject' ELSE 'not_request' END AS kind,
       CASE WHEN has_end AND j IS NULL THEN 'bad_json' WHEN (j->>'$.event') LIKE 'request.received%' THEN 'request_received' ELSE 'log_line' END AS reason
FROM t WHERE NOT (has_end AND coalesce((j->>'$.event') = 'request.finished', false))
