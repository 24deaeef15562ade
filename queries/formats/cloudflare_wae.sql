-- format: cloudflare_wae
-- title: Cloudflare Workers Analytics Engine, SQL API, JSON and JSONEachRow
-- spec: https://developers.cloudflare.com/analytics/analytics-engine/sql-api/
-- source: writeDataPoint({indexes: [tenant], blobs: [model, provider, status], doubles: [e2e_ms, ttft_ms, prompt_tokens, completion_tokens]}), then
--   SELECT * FROM dataset FORMAT JSONEachRow (or JSON, its default) on the SQL API
-- input: json
-- detect: _sample_interval, timestamp, double1
-- clock: time of the data point, to 1 s, UTC
-- resolution: 1ms
-- observer: gateway
-- observes: model, provider, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns, prompt_tokens, completion_tokens, status, http_status, error_kind, weight
-- hint: blobs and doubles have the meaning that the Worker gave them: if it is another one, say so in a mapping of your own (weight = "_sample_interval")
-- traps: rows are sampled: a row stands for _sample_interval rows, so shares and percentiles are by weight while n counts rows ; a double that was not
--   written is 0: 0 is unset ; time to 1 s ; no request id: rows cannot be joined, and repeated exports cannot be told
WITH x AS (
    SELECT line, record, from_json(j, '{
        "timestamp": "VARCHAR", "_sample_interval": "VARCHAR", "index1": "VARCHAR", "blob1": "VARCHAR", "blob2": "VARCHAR", "blob3": "VARCHAR", "double1": "VARCHAR", "double2": "VARCHAR",
        "double3": "VARCHAR", "double4": "VARCHAR"}') AS v
    FROM raw
), t AS (
    SELECT line, record, v, CASE WHEN TRY_CAST(v."timestamp" AS DOUBLE) IS NOT NULL THEN epoch_by_size_ns(v."timestamp") ELSE iso_in_ns(v."timestamp", NULL) END AS start_ns,
           -- a double that was not written is 0
           nullif(ms_ns(v.double1), 0) AS total_ns, nullif(ms_ns(v.double2), 0) AS token_ns, TRY_CAST(v.blob3 AS INTEGER) AS code,
           CASE WHEN present(v.blob3) IS NULL THEN 'ok' ELSE coalesce(http_class(TRY_CAST(v.blob3 AS INTEGER)), word_class(v.blob3)) END AS state,
           TRY_CAST(v._sample_interval AS DOUBLE) AS weight,
           CASE WHEN v."timestamp" IS NULL AND v.double1 IS NULL THEN 'no_request_field' END AS other
    FROM x
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN token_ns = 0 AND total_ns > 0 THEN 'ttft_zero' WHEN token_ns = total_ns THEN 'ttft_equals_e2e' ELSE ttft_fault(token_ns, total_ns) END), '') AS note,
       to_text(v.blob1) AS model,
       to_text(v.blob2) AS provider,
       to_text(v.index1) AS segment,
       'gateway' AS observer,
       start_ns AS arrival_ns,
       total_ns AS e2e_ns,
       CASE WHEN token_ns > 0 AND token_ns < total_ns THEN token_ns END AS ttft_ns,
       CASE WHEN token_ns > 0 AND token_ns < total_ns THEN 'first_token' END AS ttft_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       nullif(to_count(v.double3), 0) AS prompt_tokens,
       nullif(to_count(v.double4), 0) AS completion_tokens,
       state AS status,
       code AS http_status,
       CASE WHEN state <> 'ok' THEN coalesce(http_kind(code), word_kind(v.blob3), 'upstream') END AS error_kind,
       CASE WHEN weight >= 1 THEN weight ELSE 1 END AS weight
FROM t
