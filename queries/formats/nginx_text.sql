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
    SELECT line, record, NULL AS naive,
           coalesce(s_ns(msec), clf_ns(c.time)) AS end_ns,
           s_ns(coalesce(rt, nullif(g.rt, ''))) AS total_ns,
           TRY_CAST(coalesce(nullif(c.status, ''), status) AS INTEGER) AS code,
           nginx_list(coalesce(present(ua), present(g.addr))) AS addrs, nginx_list(coalesce(present(us), present(g.us))) AS states,
           nginx_list(present(uht)) AS heads, nginx_list(coalesce(present(urt), present(g.urt))) AS lasts, CAST(NULL AS VARCHAR[]) AS waits,
           nullif(c.verb, '') AS verb, nullif(c.path, '') AS path, present(ct) AS content,
           CASE WHEN done <> '' THEN trim(trim(done, '"')) END AS completion, ucs AS cache,
           to_text(coalesce(nullif(present(id), 'null'), nullif(g.id, ''))) AS request_id, to_text(session) AS turn_id, to_text(model) AS model, NULL AS segment,
           NULL AS prompt_tokens, NULL AS completion_tokens, to_count(coalesce(length, nullif(g.length, ''))) AS request_bytes, to_count(c.bytes) AS response_bytes
    FROM x
)
SELECT line, record,
       CASE WHEN end_ns IS NULL OR code IS NULL THEN 'not_request'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN total_ns < 0 OR total_ns > 86400000000000 OR status IS NULL THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN end_ns IS NULL OR code IS NULL THEN 'unrecognised_line'
            WHEN verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN total_ns < 0 THEN 'negative_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range'
            WHEN status IS NULL THEN 'unknown_status' END AS reason,
       nullif(concat_ws(',', CASE WHEN total_ns IS NULL THEN 'no_duration' END, doubts), '') AS note,
       * EXCLUDE (line, record, end_ns, total_ns, code, verb, naive, doubts)
FROM nginx_rows('t')
