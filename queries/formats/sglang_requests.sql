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
)
FROM sglang_rows('f')
UNION ALL BY NAME
SELECT line, record, CASE WHEN has_end AND j IS NULL THEN 'reject' ELSE 'not_request' END AS kind,
       CASE WHEN has_end AND j IS NULL THEN 'bad_json' WHEN (j->>'$.event') LIKE 'request.received%' THEN 'request_received' ELSE 'log_line' END AS reason
FROM t WHERE NOT (has_end AND coalesce((j->>'$.event') = 'request.finished', false))
