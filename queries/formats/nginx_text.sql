-- format: nginx_text
-- title: nginx access log, text: combined with timings (quoted or bare), ingress-nginx, combined, JSON with bare values
-- spec: https://nginx.org/en/docs/http/ngx_http_log_module.html
-- source: log_format timed '<the combined format> rt=$request_time uht="$upstream_header_time" urt="$upstream_response_time"
--   ua="$upstream_addr" us="$upstream_status" id=$request_id ct="$sent_http_content_type" msec=$msec rc="$request_completion"'
-- input: text
-- detect: /(^|\s)\S+ \S+ \S+ \[\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "[^"]*" \d{3} (\d+|-)( (?!.*\d+ms$)|$)|(?=.*"(rt|request_time)": ?).*"(upstream_response_time|upstream_header_time|urt|uht)": ?[-0-9]/
-- clock: wall clock of the proxy when the row is written, that is the end: to 1 s in [brackets], to 1 ms in msec; durations are to 1 ms
-- resolution: 1ms
-- observer: edge
-- observes: request_id, attempt_no, cause, turn_id, replica, model, route, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, headers_ns, resolution_ns,
--   request_bytes, response_bytes, status, http_status, error_kind, won, cache_hit, streamed, weight
-- one_row: request
-- hint: log rt=$request_time: without it a row has no duration. msec=$msec gives the time to 1 ms, id=$request_id joins other logs,
--   ct="$sent_http_content_type" tells streams, and with it a first byte; JSON with quoted values carries names and commas safely
-- traps: plain combined has no duration and no start ; the time is that of the end, to the second ; lists without quotes put blanks inside a
--   field ; lists in one row are attempts, ', ' within a group and ' : ' after an internal redirect ; the name of a group stands for an
--   address when no server could be chosen ; a caller that leaves in mid-stream is status 200 ; JSON with bare lists is no valid JSON
-- notes: cut_answer = good status but request_completion is empty: the answer was cut or its caller left ; no_duration = rows of a log
--   format without request_time
WITH x AS (
    SELECT line, record, text,
           regexp_extract(text, '\[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "(?:([A-Z]+) ([^" ]*)[^"]*|[^"]*)" (\d{3}) (\d+|-)', ['time', 'verb', 'path', 'status', 'bytes']) AS c,
           -- ingress-nginx: request length, time, [service] [alternative] address, length, response time, status, id
           CASE WHEN contains(text, '] [') THEN regexp_extract(text, '" (\d+) ([\d.]+) \[[^\]]*\] \[[^\]]*\] (\S+(?:(?:,| :) \S+)*) (?:[-\d]+(?:(?:,| :) [-\d]+)*) ([-\d.]+(?:(?:,| :) [-\d.]+)*) ([-\d]+(?:(?:,| :) [-\d]+)*) ([0-9a-f]{16,64})$',
               ['length', 'rt', 'addr', 'urt', 'us', 'id']) END AS g,
           CASE WHEN contains(text, 'msec') OR contains(text, '"t"') THEN nullif(regexp_extract(text, '[ ,{"](?:msec|t)"?[=:] ?"?([0-9]{9,}\.?[0-9]*)', 1), '') END AS msec,
           nullif(regexp_extract(text, '[ ,{"](?:rt|request_time)"?[=:] ?"?([0-9.]+)', 1), '') AS rt,
           nullif(regexp_extract(text, '[ ,{"](?:uht|upstream_header_time)"?[=:] ?"?([-0-9., :]*?)"?(?:,"| [a-z_]+=|\}|\s*$)', 1), '') AS uht,
           nullif(regexp_extract(text, '[ ,{"](?:urt|upstream_response_time)"?[=:] ?"?([-0-9., :]*?)"?(?:,"| [a-z_]+=|\}|\s*$)', 1), '') AS urt,
           nullif(regexp_extract(text, '[ ,{"](?:ua|upstream_addr|upstream)"?[=:] ?"?([^"=]*?)"?(?:,"| [a-z_]+=|\}|\s*$)', 1), '') AS ua,
           nullif(regexp_extract(text, '[ ,{"](?:us|upstream_status)"?[=:] ?"?([-0-9, :]*?)"?(?:,"| [a-z_]+=|\}|\s*$)', 1), '') AS us,
           nullif(regexp_extract(text, '[ ,{"](?:id|rid|req_id|request_id)"?[=:] ?"?([^" ,}]+)', 1), '') AS id,
           CASE WHEN contains(text, ' ct=') OR contains(text, 'content_type') THEN nullif(regexp_extract(text, '[ ,{"](?:ct|content_type|sent_http_content_type)"?[=:] ?"?([^" ,}]+)', 1), '') END AS ct,
           CASE WHEN contains(text, 'rc=') OR contains(text, '"rc"') OR contains(text, 'request_completion')
                THEN regexp_extract(text, '[ ,{"](?:rc|request_completion)"?[=:] ?("[^"]*")', 1) END AS done,
           CASE WHEN contains(text, 'status"') OR contains(text, ' status=') THEN nullif(regexp_extract(text, '[ ,{"]status"?[=:] ?"?(\d{3})', 1), '') END AS status,
           CASE WHEN contains(text, 'model') THEN nullif(regexp_extract(text, '[ ,{"](?:model)"?[=:] ?"?([^" ,}]+)', 1), '') END AS model,
           CASE WHEN contains(text, 'sid') OR contains(text, 'session') THEN nullif(regexp_extract(text, '[ ,{"](?:sid|session|session_id)"?[=:] ?"?([^" ,}]+)', 1), '') END AS session,
           CASE WHEN contains(text, 'ucs') OR contains(text, 'cache_status') THEN nullif(regexp_extract(text, '[ ,{"](?:ucs|upstream_cache_status)"?[=:] ?"?([A-Z-]+)', 1), '') END AS ucs,
           CASE WHEN contains(text, 'rl=') OR contains(text, '"rl"') OR contains(text, 'request_length') THEN nullif(regexp_extract(text, '[ ,{"](?:rl|request_length)"?[=:] ?"?(\d+)', 1), '') END AS length
    FROM raw
), t AS (
    SELECT line, record,
           {'request_length': coalesce(length, nullif(g.length, '')), 'request_completion': CASE WHEN done <> '' THEN trim(done, '"') END,
            'request_id': coalesce(nullif(present(id), 'null'), nullif(g.id, '')), 'session_id': session, 'model': model, 'route': nullif(c.path, ''),
            'bytes': c.bytes, 'upstream_cache_status': ucs} AS v,
           coalesce(s_ns(msec), clf_ns(c.time)) AS end_ns,
           s_ns(coalesce(rt, nullif(g.rt, ''))) AS total_ns,
           TRY_CAST(coalesce(nullif(c.status, ''), status) AS INTEGER) AS code,
           string_split(replace(coalesce(present(ua), present(g.addr), ''), ' : ', ', '), ', ') AS addrs,
           string_split(replace(coalesce(present(us), present(g.us), ''), ' : ', ', '), ', ') AS states,
           string_split(replace(coalesce(present(uht), ''), ' : ', ', '), ', ') AS heads,
           string_split(replace(coalesce(present(urt), present(g.urt), ''), ' : ', ', '), ', ') AS lasts,
           nullif(c.verb, '') AS verb, present(ct) AS content
    FROM x
), p AS (
    -- positions that were sends: not the name of a group, and not an answer that only pointed elsewhere inside nginx
    SELECT *, list_filter(range(1, places + 1), lambda i:
               -- without addresses a place of no time and no headers may be either: a refused connection or a group
               CASE WHEN addrs = [''] THEN i = places OR coalesce(s_ns(lasts[i]), 0) > 0 OR heads[i] <> '-' ELSE strpos(addrs[i], ':') > 0 END
               AND (i = places OR coalesce(TRY_CAST(states[i] AS INTEGER), 0) NOT BETWEEN 200 AND 399)) AS sends,
           coalesce(TRY_CAST(list_sum(list_transform(lasts, lambda s: s_ns(s))) AS BIGINT), 0) AS all_ns
    FROM (SELECT *, greatest(len(addrs), len(lasts)) AS places FROM t)
), q AS (
    SELECT *, unnest(CASE WHEN len(sends) > 0 AND len(sends) <= 64 THEN sends ELSE [places] END) AS i FROM p
), a AS (
    SELECT *, coalesce(list_position(sends, i), 1) - 1 AS k, i = coalesce(sends[-1], i) AS last,
           -- a large body is read before the first send
           CASE WHEN to_count(v.request_length) >= 65536 AND total_ns - all_ns > 5000000 THEN total_ns - all_ns ELSE 0 END AS upload_ns,
           coalesce(TRY_CAST(list_sum(list_transform(list_slice(lasts, 1, i - 1), lambda s: s_ns(s))) AS BIGINT), 0) AS before_ns,
           s_ns(present(heads[i])) AS head_ns, s_ns(present(lasts[i])) AS own_ns,
           CASE WHEN content LIKE 'text/event-stream%' THEN true WHEN content IS NOT NULL AND code BETWEEN 200 AND 299 THEN false END AS streamed
    FROM q
), b AS (
    SELECT *, CASE WHEN k > 0 THEN least(upload_ns + before_ns, total_ns) ELSE 0 END AS lag_ns,
           CASE WHEN last AND code = 499 THEN 499
                ELSE coalesce(TRY_CAST(states[i] AS INTEGER), CASE WHEN last THEN code END) END AS own_code,
           last AND code BETWEEN 200 AND 399 AND trim(v.request_completion) IN ('', '-') AS cut
    FROM a
), c AS (
    SELECT *, CASE WHEN cut THEN 'censored' ELSE coalesce(http_class(own_code), CASE WHEN NOT last THEN 'error' END) END AS state,
           -- from the start of this attempt to its headers, the upload included
           CASE WHEN k = 0 THEN upload_ns + before_ns ELSE 0 END + head_ns AS to_headers_ns
    FROM b
)
SELECT line, record,
       CASE WHEN end_ns IS NULL OR code IS NULL THEN 'not_request'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN total_ns < 0 OR total_ns > 86400000000000 OR state IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN end_ns IS NULL OR code IS NULL THEN 'unrecognised_line'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN state IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN total_ns IS NULL THEN 'no_duration' END,
                        CASE WHEN cut THEN 'cut_answer' END,
                        CASE WHEN last AND streamed AND state = 'ok' THEN ttft_fault(to_headers_ns, total_ns - lag_ns + 1000000) END), '') AS note,
       to_text(v.request_id) AS request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       to_text(v.session_id) AS turn_id,
       CASE WHEN strpos(addrs[i], ':') > 0 THEN addrs[i] END AS replica,
       to_text(v.model) AS model,
       split_part(v.route, '?', 1) AS route,
       'edge' AS observer,
       TRY(end_ns - total_ns + lag_ns) AS arrival_ns,
       -- a refused connection is written as 0.000: no time at all
       CASE WHEN last THEN CASE WHEN total_ns - lag_ns = 0 AND state <> 'ok' THEN NULL ELSE total_ns - lag_ns END
            ELSE nullif(least(own_ns + CASE WHEN k = 0 THEN upload_ns ELSE 0 END, total_ns), 0) END AS e2e_ns,
       CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns BETWEEN 1 AND total_ns - lag_ns THEN to_headers_ns END AS ttft_ns,
       CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns BETWEEN 1 AND total_ns - lag_ns THEN 'first_byte' END AS ttft_basis,
       CASE WHEN to_headers_ns BETWEEN 0 AND total_ns + 1000000 THEN to_headers_ns END AS headers_ns,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       to_count(v.request_length) AS request_bytes,
       CASE WHEN last THEN to_count(v.bytes) END AS response_bytes,
       state AS status, own_code AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN cut THEN 'client_gone' WHEN own_code IS NULL THEN 'upstream' ELSE http_kind(own_code) END AS error_kind,
       CASE WHEN len(sends) > 1 THEN last AND state = 'ok' END AS won,
       CASE WHEN v.upstream_cache_status IN ('HIT', 'STALE', 'UPDATING', 'REVALIDATED') THEN true
            WHEN present(v.upstream_cache_status) IS NOT NULL THEN false END AS cache_hit,
       streamed,
       CAST(1 AS DOUBLE) AS weight
FROM c
