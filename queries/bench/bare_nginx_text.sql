-- name: bench/bare_nginx_text
-- What a bare DuckDB does with the generated log: one regular expression over whole lines; the columns that hedgectl fills from it,
-- exact integers, a unique key. $path.
CREATE TABLE bare (
    request_id VARCHAR PRIMARY KEY, attempt_no INTEGER, cause VARCHAR, turn_id VARCHAR, replica VARCHAR, model VARCHAR, route VARCHAR,
    observer VARCHAR, arrival_ns BIGINT, e2e_ns BIGINT, ttft_ns BIGINT, ttft_basis VARCHAR, headers_ns BIGINT, resolution_ns BIGINT,
    response_bytes BIGINT, status VARCHAR, http_status INTEGER, streamed BOOLEAN, weight DOUBLE
);
INSERT INTO bare
WITH x AS (
    SELECT regexp_extract(text, '"([A-Z]+) ([^" ]*)[^"]*" (\d{3}) (\d+|-) "[^"]*" "[^"]*" rt=([0-9.]+) uct="[^"]*" uht="([^"]*)" urt="[^"]*" ua="([^"]*)" us="[^"]*" id=(\S+) ct="([^"]*)" msec=([0-9.]+) rc="([^"]*)" model=(\S+) sid=(\S+)',
               ['verb', 'path', 'code', 'bytes', 'rt', 'uht', 'ua', 'id', 'ct', 'msec', 'rc', 'model', 'sid']) AS v
    FROM read_csv($path, columns = {text: 'VARCHAR'}, header = false, delim = chr(1), quote = '', escape = '', auto_detect = false)
)
SELECT v.id, 0, 'primary', v.sid, v.ua, v.model, v.path, 'edge',
       (v.msec::DECIMAL(28, 9) * 1000000000)::BIGINT - (v.rt::DECIMAL(28, 9) * 1000000000)::BIGINT, (v.rt::DECIMAL(28, 9) * 1000000000)::BIGINT,
       (v.uht::DECIMAL(28, 9) * 1000000000)::BIGINT, 'first_byte', (v.uht::DECIMAL(28, 9) * 1000000000)::BIGINT, 1000000, v.bytes::BIGINT,
       CASE WHEN v.code::INTEGER BETWEEN 200 AND 399 THEN 'ok' ELSE 'error' END, v.code::INTEGER, v.ct LIKE 'text/event-stream%', 1
FROM x WHERE v.verb = 'POST'
