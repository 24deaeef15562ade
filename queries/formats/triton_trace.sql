-- format: triton_trace
-- title: Triton Inference Server trace file
-- spec: triton-inference-server/server docs/user_guide/trace.md and src/tracer.cc
-- source: tritonserver --trace-config level=TIMESTAMPS --trace-config rate=1 --trace-config count=-1 --trace-config triton,file=trace.json
-- input: json
-- detect: id, timestamps|model_version, /"(HTTP_RECV|GRPC_WAITREAD|REQUEST|QUEUE|COMPUTE|COMPUTE_INPUT|COMPUTE_OUTPUT|INFER_RESPONSE|HTTP_SEND|GRPC_SEND)_(START|END|COMPLETE)"|"model_version"/
-- clock: CLOCK_MONOTONIC of the host, no time of day
-- resolution: 1ns
-- observer: engine
-- observes: request_id, model, observer, e2e_ns, queue_ns, queue_basis, resolution_ns, status, error_kind
-- one_row: part
-- hint: the default rate traces one request in 1000: set rate=1. Tokens, first token, status and time of day are not in it: join a gateway's log by
--   request_id. Backends with in-flight batching queue inside, so their queue looks like compute
-- traps: one request is a dozen objects, grouped by id, out of order ; GRPC_WAITREAD_START is when the server began to wait, long before the request ;
--   scripted errors and HTTP clients that left look like successes ; a cancelled gRPC call lacks INFER_RESPONSE_COMPLETE and GRPC_SEND ; a request
--   dropped in the queue has no COMPUTE ; a request cut at the end of the file has no REQUEST_END ; log-frequency splits one trace over files ; children of an ensemble have
--   a parent_id
WITH e AS (
    SELECT line, record, line >> 40 AS file, j->>'$.id' AS id, j->>'$.model_name' AS model, j->>'$.request_id' AS request_id, j->>'$.parent_id' AS parent_id,
           unnest(CASE WHEN json_type(j->'$.timestamps') = 'ARRAY' AND json_array_length(j->'$.timestamps') > 0 THEN TRY_CAST(j->'$.timestamps' AS JSON[]) ELSE [NULL] END) AS stamp
    FROM raw
), s AS (
    SELECT * EXCLUDE (stamp), stamp->>'$.name' AS name, ns_ns(stamp->>'$.ns') AS ns FROM e
), g AS (
    SELECT file, id, min((line::HUGEINT << 32) + record) FILTER (model IS NOT NULL) AS head, any_value(model) AS model, any_value(request_id) AS request_id,
           any_value(parent_id) AS parent_id,
           min(ns) FILTER (name = 'HTTP_RECV_START') AS http_in, max(ns) FILTER (name = 'HTTP_SEND_END') AS http_out,
           min(ns) FILTER (name = 'GRPC_WAITREAD_END') AS grpc_in, max(ns) FILTER (name = 'GRPC_SEND_END') AS grpc_out,
           min(ns) FILTER (name = 'REQUEST_START') AS begun, max(ns) FILTER (name = 'REQUEST_END') AS done,
           min(ns) FILTER (name = 'QUEUE_START') AS queued, min(ns) FILTER (name = 'COMPUTE_START') AS computing,
           max(ns) FILTER (name = 'INFER_RESPONSE_COMPLETE') AS answered
    FROM s WHERE id IS NOT NULL GROUP BY file, id
), k AS (
    SELECT *, coalesce(http_in, grpc_in, begun) AS start_at,
           computing IS NULL OR (answered IS NULL AND http_out IS NULL) AS gone
    FROM g WHERE head IS NOT NULL
), d AS (
    SELECT *, TRY(CASE WHEN gone THEN done ELSE coalesce(http_out, grpc_out, done) END - start_at) AS e2e, TRY(computing - queued) AS queue FROM k
), r AS (
    SELECT *, CASE WHEN parent_id IS NOT NULL THEN 'child_of_request' WHEN done IS NULL AND http_out IS NULL AND grpc_out IS NULL THEN 'unfinished' END AS other,
           CASE WHEN e2e IS NULL THEN 'no_duration' WHEN e2e < 0 THEN 'negative_duration' WHEN e2e > 86400000000000 THEN 'duration_out_of_range' END AS bad
    FROM d
)
SELECT CAST(head >> 32 AS BIGINT) AS line, CAST(head & 4294967295 AS INTEGER) AS record,
       CASE WHEN other IS NOT NULL THEN 'not_request' WHEN bad IS NOT NULL THEN 'reject' ELSE 'attempt' END AS kind, coalesce(other, bad) AS reason,
       CASE WHEN queue NOT BETWEEN 0 AND e2e THEN 'component_out_of_range' END AS note,
       to_text(request_id) AS request_id, to_text(model) AS model, 'engine' AS observer, e2e AS e2e_ns,
       CASE WHEN queue BETWEEN 0 AND e2e THEN queue END AS queue_ns, CASE WHEN queue BETWEEN 0 AND e2e THEN 'measured' END AS queue_basis,
       CAST(1 AS BIGINT) AS resolution_ns,
       CASE WHEN gone THEN 'censored' ELSE 'ok' END AS status,
       CASE WHEN gone AND computing IS NULL THEN 'aborted' WHEN gone THEN 'client_gone' END AS error_kind
FROM r
UNION ALL BY NAME
SELECT line, record, 'not_request' AS kind, 'event' AS reason
FROM raw WHERE NOT EXISTS (FROM r WHERE r.head = (raw.line::HUGEINT << 32) + raw.record)
