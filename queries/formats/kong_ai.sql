-- format: kong_ai
-- title: Kong gateway log with the AI block, JSON
-- spec: https://developer.konghq.com/ai-gateway/ai-audit-log-reference/
-- source: any Kong log plugin (http-log, file-log, ...); in the AI plugins config.logging.log_statistics: true
-- input: json
-- detect: latencies, started_at, tries|upstream_status|service, request
-- clock: wall clock of the gateway at the start of the request, epoch ms
-- resolution: 1ms
-- observer: gateway
-- observes: request_id, attempt_no, cause, replica, pool, model, route, provider, segment, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns, resolution_ns,
--   prompt_tokens, completion_tokens, request_bytes, response_bytes, status, http_status, error_kind, won, cache_hit, streamed, cost, currency, weight
-- one_row: request
-- hint: without log_statistics there are no tokens, no model and no first token; open-source versions log no time_to_first_token at all
-- traps: balancer_latency is the choice of a peer, not the attempt's time: an attempt lasts until the next one's balancer_start ; latencies.proxy is the wait
--   for headers, -1 without an upstream ; values of 0 are unset: llm_latency on errors, tokens of streams ; time_per_token includes the
--   first token ; old versions leave the last failed try out ; upstream_status is a list
-- notes: ttft_of_last_attempt = after a retry the first token is timed from the last attempt, so TTFT is unknown
WITH x AS (
    SELECT line, record, from_json(j, '{
        "request": {"id": "VARCHAR", "uri": "VARCHAR", "method": "VARCHAR", "size": "VARCHAR"}, "response": {"status": "VARCHAR", "size": "VARCHAR"},
        "latencies": {"request": "VARCHAR", "proxy": "VARCHAR", "receive": "VARCHAR"}, "started_at": "VARCHAR", "upstream_status": "VARCHAR",
        "tries": [{"ip": "VARCHAR", "port": "VARCHAR", "balancer_start": "VARCHAR", "balancer_start_ns": "VARCHAR", "code": "VARCHAR", "state": "VARCHAR"}],
        "consumer": {"username": "VARCHAR", "custom_id": "VARCHAR"}, "service": {"name": "VARCHAR"}, "route": {"name": "VARCHAR"}, "ai": "JSON"}') AS v
    FROM raw
), b AS (
    SELECT line, record, v, json_extract_string(coalesce((v.ai->'$.proxy'), (v.ai->'$."ai-proxy"'), (v.ai->'$."ai-proxy-advanced"')),
               ['/meta/request_model', '/meta/response_model', '/meta/provider_name', '/meta/request_mode', '/usage/prompt_tokens', '/usage/prompt_token',
                '/usage/completion_tokens', '/usage/completion_token', '/usage/cost', '/usage/time_to_first_token', '/cache/cache_status']) AS w,
           json_type(v.ai, '$.mcp') = 'OBJECT' AS mcp
    FROM x
), t AS (
    SELECT line, record, v, w, ms_ns(v.started_at) AS start_ns, ms_ns(v.latencies.request) AS total_ns, TRY_CAST(v.response.status AS INTEGER) AS code,
           http_class(TRY_CAST(v.response.status AS INTEGER)) AS state, coalesce(len(v.tries), 0) AS places,
           lower(w[11]) = 'hit' AS hit, ms_ns(w[10]) AS token_ns, lower(w[4]) AS mode,
           CASE WHEN ms_ns(v.latencies.receive) >= 0 AND ms_ns(v.latencies.proxy) >= 0 THEN TRY(ms_ns(v.latencies.request) - ms_ns(v.latencies.receive)) END AS head_ns,
           CASE WHEN v.started_at IS NULL AND v.latencies.request IS NULL THEN 'no_request_field'
                WHEN mcp THEN 'not_a_generation' WHEN v.request.method NOT IN ('POST', 'PUT') THEN 'not_a_generation' END AS other
    FROM b
), e AS (
    SELECT *, unnest(CASE WHEN places BETWEEN 2 AND 16 THEN range(0, places) ELSE [0] END) AS k FROM t
), a AS (
    SELECT *, places BETWEEN 2 AND 16 AS again, k = greatest(places, 1) - 1 OR places > 16 AS last,
           CASE WHEN k > 0 THEN coalesce(ns_ns(v.tries[k + 1].balancer_start_ns), ms_ns(v.tries[k + 1].balancer_start)) ELSE start_ns END AS begin_ns,
           coalesce(ns_ns(v.tries[k + 2].balancer_start_ns), ms_ns(v.tries[k + 2].balancer_start)) AS next_ns,
           TRY_CAST(v.tries[k + 1].code AS INTEGER) AS own_code
    FROM e
), c AS (
    SELECT *, CASE WHEN NOT last THEN TRY(next_ns - begin_ns) WHEN again THEN TRY(start_ns + total_ns - begin_ns) ELSE total_ns END AS length_ns FROM a
)
SELECT line, record,
       CASE WHEN other IS NOT NULL THEN 'not_request'
            WHEN start_ns IS NULL OR total_ns IS NULL OR total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN other IS NOT NULL THEN other
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN last AND again AND token_ns > 0 THEN 'ttft_of_last_attempt' WHEN last AND state = 'ok' AND token_ns = total_ns THEN 'ttft_equals_e2e' WHEN last THEN ttft_fault(token_ns, total_ns) END), '') AS note,
       to_text(v.request.id) AS request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       CASE WHEN NOT coalesce(hit, false) THEN v.tries[k + 1].ip || coalesce(':' || v.tries[k + 1].port, '') END AS replica,
       to_text(v.service.name) AS pool,
       coalesce(to_text(w[1]), to_text(w[2])) AS model,
       coalesce(to_text(v.route.name), to_text(v.request.uri)) AS route,
       to_text(w[3]) AS provider,
       coalesce(to_text(v.consumer.username), to_text(v.consumer.custom_id)) AS segment,
       'gateway' AS observer,
       coalesce(begin_ns, start_ns) AS arrival_ns,
       CASE WHEN length_ns > 0 OR (length_ns = 0 AND last AND state = 'ok') THEN least(length_ns, total_ns) END AS e2e_ns,
       CASE WHEN NOT again AND state = 'ok' AND token_ns > 0 AND token_ns < total_ns THEN token_ns END AS ttft_ns,
       CASE WHEN NOT again AND state = 'ok' AND token_ns > 0 AND token_ns < total_ns THEN 'first_token' END AS ttft_basis,
       CASE WHEN NOT again AND head_ns BETWEEN 0 AND total_ns THEN head_ns END AS headers_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       nullif(coalesce(to_count(w[5]), to_count(w[6])), 0) AS prompt_tokens,
       CASE WHEN last THEN nullif(coalesce(to_count(w[7]), to_count(w[8])), 0) END AS completion_tokens,
       to_count(v.request.size) AS request_bytes,
       CASE WHEN last THEN to_count(v.response.size) END AS response_bytes,
       CASE WHEN last THEN state WHEN http_class(own_code) = 'censored' THEN 'censored' ELSE 'error' END AS status,
       CASE WHEN last THEN code ELSE own_code END AS http_status,
       CASE WHEN NOT last THEN coalesce(http_kind(own_code), 'upstream') WHEN state <> 'ok' THEN http_kind(code) END AS error_kind,
       CASE WHEN again THEN last AND state = 'ok' END AS won,
       CASE WHEN hit THEN true WHEN w[11] IS NOT NULL THEN false END AS cache_hit,
       CASE WHEN mode = 'stream' THEN true WHEN mode = 'oneshot' THEN false END AS streamed,
       CASE WHEN last AND NOT coalesce(state <> 'ok' AND to_money(w[9]) = 0, false) THEN to_money(w[9]) END AS cost,
       CASE WHEN last AND w[9] IS NOT NULL AND NOT coalesce(state <> 'ok' AND to_money(w[9]) = 0, false) THEN 'USD' END AS currency,
       CAST(1 AS DOUBLE) AS weight
FROM c
