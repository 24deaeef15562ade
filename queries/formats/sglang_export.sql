-- format: sglang_export
-- title: SGLang metrics export, both generations of names
-- spec: sglang/srt/managers/tokenizer_manager.py and observability/req_time_stats.py
-- source: sglang serve --enable-metrics --export-metrics-to-file --export-metrics-to-file-dir DIR
-- input: json
-- detect: request_parameters, e2e_latency, finish_reason, id
-- clock: marks are wall clock of the server, epoch seconds; queue and e2e are differences on its performance counter
-- resolution: 1us
-- observer: engine
-- observes: request_id, replica, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns,
--   decode_basis, resolution_ns, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, status, http_status, error_kind, streamed
-- hint: without --enable-metrics only e2e and tokens are written. The host is in the name of the log folder at most: keep one folder a replica.
--   Clients that left have no record. Prompts are in the file unless --log-requests --log-requests-level 0 is set
-- traps: forward_entry_time and prefill_finished_time are times though their names end otherwise ; older names are prefill_launch_latency,
--   prefill_finished_ts, decode_finished_ts, total_retractions ; queue_time was negative after retractions ; zeros of older disaggregated versions are
--   no measurement ; finish_reason is an object ; the queue sums all waits of a retracted request
WITH f AS (
    SELECT line, record, j AS m, json_extract_string(j->>'$.request_parameters', '$.stream') AS stream, NULL AS stamp, NULL AS rid FROM raw WHERE json_valid(coalesce(j->>'$.request_parameters', '{}'))
    UNION ALL
    SELECT line, record, j, NULL, NULL, NULL FROM raw WHERE NOT json_valid(coalesce(j->>'$.request_parameters', '{}'))
)
FROM sglang_rows('f')
