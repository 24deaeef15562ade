-- name: formats/_macros
-- Scalar macros shared by every format. The ingest stage runs this file once on its connection before a format is used.
-- Every macro returns NULL for what it cannot read: a format decides whether that is "not observed" or a reject.
-- Numbers are read as decimals, never as doubles: a double loses 100 ns at epoch scale.
-- Naive times are read in the zone of the session variable hedgectl_tz (NULL = UTC). An ambiguous local time (clocks set
-- back) is the later of its two instants, that is standard time; a skipped one is read with the offset before the change.

-- text -> text. '' and '-' mean "not there" in every log of this family.
CREATE OR REPLACE TEMP MACRO present(s) AS nullif(nullif(trim(s), ''), '-');

-- text -> text, NULL for a JSON array or object that stands where a scalar belongs.
CREATE OR REPLACE TEMP MACRO to_text(s) AS
    CASE WHEN (starts_with(s, '{') OR starts_with(s, '[')) AND json_valid(s) THEN NULL ELSE nullif(nullif(s, ''), '-') END;

-- text or a number -> BIGINT >= 0; '75.0' is 75. Negative counts are not counts.
CREATE OR REPLACE TEMP MACRO to_count(s) AS
    CASE WHEN TRY_CAST(s AS BIGINT) >= 0 THEN TRY_CAST(s AS BIGINT) END;

-- text -> BOOLEAN, as the writers of logs spell it.
CREATE OR REPLACE TEMP MACRO to_bool(s) AS
    CASE WHEN s IN ('true', 'True') THEN true
         WHEN s IN ('false', 'False') THEN false
         WHEN lower(trim(s)) IN ('true', 't', '1', '1.0', 'yes', 'y', 'on', 'hit') THEN true
         WHEN lower(trim(s)) IN ('false', 'f', '0', '0.0', 'no', 'n', 'off', 'miss') THEN false END;

-- text -> DECIMAL(24, 12) money.
CREATE OR REPLACE TEMP MACRO to_money(s) AS TRY_CAST(s AS DECIMAL(24, 12));

-- decimal text in s, ms, us or ns -> BIGINT ns, rounded half away from zero.
-- Text with its own exponent appended is cast to an integer exactly and four times as fast as through a wide decimal; what that does
-- not read (an exponent that is there already, blanks behind) takes the long way. Hexadecimal digits would swallow the exponent.
CREATE OR REPLACE TEMP MACRO scaled_ns(s, exponent, factor) AS
    CASE WHEN contains(s, 'x') OR contains(s, 'X') THEN NULL
         ELSE coalesce(TRY_CAST(s || exponent AS BIGINT), TRY_CAST(TRY_CAST(s AS DECIMAL(28, 9)) * factor AS BIGINT)) END;
CREATE OR REPLACE TEMP MACRO s_ns(s) AS scaled_ns(s, 'e9', 1000000000);
CREATE OR REPLACE TEMP MACRO ms_ns(s) AS scaled_ns(s, 'e6', 1000000);
CREATE OR REPLACE TEMP MACRO us_ns(s) AS scaled_ns(s, 'e3', 1000);
CREATE OR REPLACE TEMP MACRO ns_ns(s) AS TRY_CAST(TRY_CAST(s AS DECIMAL(28, 9)) AS BIGINT);
CREATE OR REPLACE TEMP MACRO min_ns(s) AS TRY_CAST(TRY_CAST(s AS DECIMAL(28, 9)) * 60000000000 AS BIGINT);
-- a decimal that JSON gave, DECIMAL(18, 6) of ms or DECIMAL(18, 3) of us -> BIGINT ns, exact; a third of the cost of text.
CREATE OR REPLACE TEMP MACRO from_ms(d) AS TRY(CAST(d * 1000000 AS BIGINT));
CREATE OR REPLACE TEMP MACRO from_us(d) AS TRY(CAST(d * 1000 AS BIGINT));

-- number text of an epoch in s, ms, us or ns, told apart by its size -> BIGINT ns; NULL outside 2000 to 2199.
CREATE OR REPLACE TEMP MACRO epoch_by_size_ns(s) AS
    CASE WHEN TRY_CAST(s AS DOUBLE) < 946684800 THEN NULL
         WHEN TRY_CAST(s AS DOUBLE) < 7258118400 THEN s_ns(s)
         WHEN TRY_CAST(s AS DOUBLE) < 946684800000 THEN NULL
         WHEN TRY_CAST(s AS DOUBLE) < 7258118400000 THEN ms_ns(s)
         WHEN TRY_CAST(s AS DOUBLE) < 946684800000000 THEN NULL
         WHEN TRY_CAST(s AS DOUBLE) < 7258118400000000 THEN us_ns(s)
         WHEN TRY_CAST(s AS DOUBLE) < 946684800000000000 THEN NULL
         WHEN TRY_CAST(s AS DOUBLE) < 7258118400000000000 THEN ns_ns(s) END;

-- ISO text -> its zone as written ('Z', 'UTC', '+01:00', ...), '' for a naive time.
CREATE OR REPLACE TEMP MACRO zone_of(s) AS
    regexp_extract(s, '\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)$', 1);

-- local wall clock text -> BIGINT ns as if it were UTC. DuckDB ignores a zone in such a cast, so it is cut off first.
CREATE OR REPLACE TEMP MACRO wall_ns(s) AS
    epoch_ns(TRY_CAST(replace(regexp_replace(s, '\s*(Z|z|UTC|GMT|[+-]\d\d(:?\d\d)?)$', ''), ',', '.') AS TIMESTAMP_NS));

-- zone text ('+05:30', '-0700', 'Z') -> BIGINT ns east of UTC.
CREATE OR REPLACE TEMP MACRO zone_offset_ns(z) AS
    CASE WHEN z[1] IN ('+', '-') THEN
        (CASE WHEN z[1] = '-' THEN -1 ELSE 1 END)
        * (TRY_CAST(substr(z, 2, 2) AS BIGINT) * 3600
           + coalesce(TRY_CAST(nullif(substr(replace(z, ':', ''), 4, 2), '') AS BIGINT), 0) * 60) * 1000000000
    ELSE 0 END;

-- naive wall clock ns in a named zone -> BIGINT ns UTC.
CREATE OR REPLACE TEMP MACRO naive_ns(wall, tz) AS
    CASE WHEN tz IS NULL THEN wall
         ELSE wall + (epoch_us(timezone(tz, make_timestamp(wall // 1000))) - wall // 1000) * 1000 END;

-- ISO text -> BIGINT ns UTC; naive times in tz (NULL = UTC). A date without a clock time is no time.
-- NULL outside 2000 to 2199: an unset clock or a broken number, and sums near the end of BIGINT overflow.
CREATE OR REPLACE TEMP MACRO iso_in_ns(s, tz) AS
    CASE WHEN strpos(s, ':') = 0 OR ltrim(s) NOT BETWEEN '2000' AND '22' THEN NULL
         WHEN ends_with(s, 'Z') THEN epoch_ns(TRY_CAST(left(s, -1) AS TIMESTAMP_NS))
         WHEN zone_of(s) <> '' THEN wall_ns(s) - zone_offset_ns(zone_of(s))
         ELSE naive_ns(epoch_ns(coalesce(TRY_CAST(s AS TIMESTAMP_NS), TRY_CAST(replace(s, ',', '.') AS TIMESTAMP_NS))), tz) END;
CREATE OR REPLACE TEMP MACRO iso_ns(s) AS iso_in_ns(s, CAST(getvariable('hedgectl_tz') AS VARCHAR));

-- ISO text, or an epoch number of any unit -> BIGINT ns UTC. What `ts` of a mapping means when it names no unit.
CREATE OR REPLACE TEMP MACRO time_in_ns(s, tz) AS
    CASE WHEN TRY_CAST(s AS DOUBLE) IS NOT NULL THEN epoch_by_size_ns(s) ELSE iso_in_ns(s, tz) END;
CREATE OR REPLACE TEMP MACRO time_ns(s) AS time_in_ns(s, CAST(getvariable('hedgectl_tz') AS VARCHAR));

-- ISO text without a zone -> true: what --tz speaks about.
CREATE OR REPLACE TEMP MACRO is_naive(s) AS
    strpos(s, ':') > 0 AND NOT ends_with(s, 'Z') AND TRY_CAST(s AS DOUBLE) IS NULL AND zone_of(s) = '';

-- '29/Nov/2026:19:06:27 +0000' (nginx, Apache) -> BIGINT ns UTC.
CREATE OR REPLACE TEMP MACRO clf_ns(s) AS
    CASE WHEN TRY_CAST(split_part(split_part(s, '/', 3), ':', 1) AS INTEGER) BETWEEN 2000 AND 2199
         THEN epoch_us(try_strptime(s, '%d/%b/%Y:%H:%M:%S %z')) * 1000 END;

-- the number that stands before a unit in a duration text -> BIGINT ns; NULL if that unit is not in it.
CREATE OR REPLACE TEMP MACRO part_ns(s, unit, each_ns) AS
    TRY_CAST(TRY_CAST(nullif(regexp_extract(s, '([0-9]+(?:\.[0-9]+)?)\s*(?:' || unit || ')(?:[^a-zA-Zµμ]|$)', 1), '')
        AS DECIMAL(28, 9)) * each_ns AS BIGINT);

-- duration text with its units ('1.2s', '850ms', '1m2s', '1200000µs', '0:00:00.250') -> BIGINT ns. 'm' is minutes.
-- A bare number has no unit and gives NULL; so does '250,0' (decimal comma or thousands?).
CREATE OR REPLACE TEMP MACRO duration_ns(s) AS
    CASE WHEN regexp_full_match(s, '\d+:\d\d:\d\d(\.\d+)?') THEN
             (TRY_CAST(split_part(s, ':', 1) AS BIGINT) * 3600 + TRY_CAST(split_part(s, ':', 2) AS BIGINT) * 60) * 1000000000
             + s_ns(split_part(s, ':', 3))
         WHEN regexp_full_match(s, '\s*([0-9]+(\.[0-9]+)?\s*(h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?|ms|msecs?|milliseconds?|us|µs|μs|usecs?|microseconds?|ns|nanoseconds?)\s*)+') THEN
             coalesce(part_ns(s, 'h|hrs?|hours?', 3600000000000), 0)
             + coalesce(part_ns(s, 'm|mins?|minutes?', 60000000000), 0)
             + coalesce(part_ns(s, 's|secs?|seconds?', 1000000000), 0)
             + coalesce(part_ns(s, 'ms|msecs?|milliseconds?', 1000000), 0)
             + coalesce(part_ns(s, 'us|µs|μs|usecs?|microseconds?', 1000), 0)
             + coalesce(part_ns(s, 'ns|nanoseconds?', 1), 0)
    END;

-- a number read from JSON whose digits a double cannot hold -> the digits as they were written. `pattern` is a regular
-- expression with the number as its group 1, e.g. '"ts"\s*:\s*(-?[0-9.]+)'. DuckDB prints JSON numbers through a double.
CREATE OR REPLACE TEMP MACRO exact_digits(j, pattern, s) AS
    CASE WHEN length(s) >= 18 AND strpos(s, '.') > 0
              AND TRY_CAST(regexp_extract(CAST(j AS VARCHAR), pattern, 1) AS DOUBLE) = TRY_CAST(s AS DOUBLE)
         THEN regexp_extract(CAST(j AS VARCHAR), pattern, 1) ELSE s END;

-- HTTP status -> ok | error | censored (the caller left or a clock ran out: the true duration is longer) | NULL.
CREATE OR REPLACE TEMP MACRO http_class(code) AS
    CASE WHEN code BETWEEN 200 AND 399 THEN 'ok'
         WHEN code IN (408, 460, 499, 504, 524) THEN 'censored'
         WHEN code BETWEEN 100 AND 599 THEN 'error' END;
CREATE OR REPLACE TEMP MACRO http_kind(code) AS
    CASE WHEN code IN (460, 499) THEN 'client_gone'
         WHEN code IN (408, 504, 524) THEN 'timeout'
         WHEN code = 429 THEN 'rate_limited'
         WHEN code >= 500 THEN 'upstream'
         WHEN code >= 400 THEN 'client' END;

-- status word -> ok | error | censored | NULL (a word nobody knows is not guessed).
CREATE OR REPLACE TEMP MACRO word_class(w) AS
    CASE WHEN lower(w) IN ('ok', 'success', 'successful', 'succeeded', 'completed', 'complete', 'done', 'finished', 'true') THEN 'ok'
         WHEN lower(w) IN ('cancelled', 'canceled', 'cancel', 'aborted', 'abort', 'client_gone', 'client_disconnected', 'client_disconnect',
                           'client_closed', 'disconnected', 'timeout', 'timed_out', 'timedout', 'deadline_exceeded', 'loser',
                           'censored', 'incomplete') THEN 'censored'
         WHEN lower(w) IN ('error', 'failed', 'failure', 'fail', 'rejected', 'refused', 'rate_limited', 'http_error',
                           'exception', 'false', 'upstream_error', 'internal_error') THEN 'error' END;
CREATE OR REPLACE TEMP MACRO word_kind(w) AS
    CASE WHEN lower(w) IN ('timeout', 'timed_out', 'timedout', 'deadline_exceeded') THEN 'timeout'
         WHEN lower(w) = 'loser' THEN 'loser'
         WHEN word_class(w) = 'censored' THEN 'client_gone'
         WHEN lower(w) = 'rate_limited' THEN 'rate_limited'
         WHEN word_class(w) = 'error' THEN 'upstream' END;

-- a time to the first token, or a part, that cannot be one -> the note that tells of it; NULL where it can, or is none. A first token at 0 or
-- at the end is for the format to judge: many writers mean "unknown" by it.
CREATE OR REPLACE TEMP MACRO ttft_fault(first_ns, whole_ns) AS
    CASE WHEN first_ns < 0 THEN 'clock_skew' WHEN first_ns > whole_ns THEN 'ttft_beyond_e2e' END;
CREATE OR REPLACE TEMP MACRO part_fault(part_ns, whole_ns) AS
    CASE WHEN part_ns < 0 OR part_ns > whole_ns THEN 'component_out_of_range' END;

-- what a run of a load tool that writes no ids is called: by its values, so that a file written again (spaces, order of keys) is the same run
CREATE OR REPLACE TEMP MACRO run_of(name, a, b, c) AS
    left(md5(concat_ws('|', coalesce(name, ''), coalesce(CAST(a AS VARCHAR), ''), coalesce(CAST(b AS VARCHAR), ''), coalesce(CAST(c AS VARCHAR), ''))), 12);

-- JSON text of a list of tools (names, or objects with name or function.name), or comma-separated text
-- -> sorted, comma-separated names; '' for an empty list, NULL for no list.
CREATE OR REPLACE TEMP MACRO tool_list(s) AS
    CASE WHEN s IS NULL OR s = 'null' THEN NULL
         -- true, false or a number says whether there were tools, not which
         WHEN to_bool(s) IS NOT NULL OR TRY_CAST(s AS DOUBLE) IS NOT NULL THEN NULL
         WHEN s[1] = '[' AND json_valid(s) THEN
             array_to_string(list_sort(list_distinct(list_filter(list_transform(CAST(s AS JSON[]),
                 lambda t: coalesce(json_extract_string(t, '$.function.name'), json_extract_string(t, '$.name'),
                               CASE WHEN json_type(t) = 'VARCHAR' THEN json_extract_string(t, '$') END,
                               json_extract_string(t, '$.type'))), lambda n: n IS NOT NULL))), ',')
         WHEN s[1] = '{' THEN NULL
         ELSE array_to_string(list_sort(list_distinct(list_filter(list_transform(string_split(s, ','), lambda t: trim(t)), lambda n: n <> ''))), ',') END;

-- one OTLP value object, or a bare JSON value -> text whatever its type; lists come back as JSON text.
CREATE OR REPLACE TEMP MACRO otlp_text(v) AS
    CASE WHEN json_type(v) = 'OBJECT' THEN
             coalesce(json_extract_string(v, '$.stringValue'), json_extract_string(v, '$.intValue'), json_extract_string(v, '$.doubleValue'),
                      json_extract_string(v, '$.boolValue'), json_extract_string(v, '$.arrayValue.values'),
                      json_extract_string(v, '$.kvlistValue.values'), json_extract_string(v, '$.bytesValue'),
                      json_extract_string(v, '$.string_value'), json_extract_string(v, '$.int_value'), json_extract_string(v, '$.double_value'),
                      json_extract_string(v, '$.bool_value'), json_extract_string(v, '$.array_value.values'))
         ELSE json_extract_string(v, '$') END;
-- OTLP JSON attributes -> LIST of {key, text}; then otlp_attr(list, key) -> text. Make the list once a span: it is the dear part.
-- Read are the list of the specification, in camelCase and snake_case, and a plain object of names and values.
-- Most values are one of four scalars, which one pass over the text gives; whatever is not goes the long way.
CREATE OR REPLACE TEMP MACRO otlp_any_attrs(attributes) AS
    CASE WHEN json_type(attributes) = 'OBJECT' THEN
             list_transform(json_keys(attributes), lambda k: {'key': k,
                 'text': otlp_text(json_extract(attributes, '/' || replace(replace(k, '~', '~0'), '/', '~1')))})
         ELSE list_transform(from_json(attributes, '[{"key":"VARCHAR","value":"JSON"}]'), lambda a: {'key': a.key, 'text': otlp_text(a.value)}) END;
CREATE OR REPLACE TEMP MACRO otlp_attrs(attributes) AS
    list_transform([from_json(CASE WHEN json_type(attributes) = 'ARRAY' THEN attributes END,
            '[{"key": "VARCHAR", "value": {"stringValue": "VARCHAR", "intValue": "VARCHAR", "doubleValue": "VARCHAR", "boolValue": "VARCHAR"}}]')],
        lambda f: CASE WHEN f IS NULL OR len(list_filter(f, lambda a: a.key IS NOT NULL AND coalesce(a.value.stringValue, a.value.intValue, a.value.doubleValue, a.value.boolValue) IS NULL)) > 0
                       THEN otlp_any_attrs(attributes)
                       ELSE list_transform(f, lambda a: {'key': a.key, 'text': coalesce(a.value.stringValue, a.value.intValue, a.value.doubleValue, a.value.boolValue)}) END)[1];
CREATE OR REPLACE TEMP MACRO otlp_attr(attrs, k) AS list_filter(attrs, lambda a: a.key = k)[1].text;
-- hex id in lower case; base64 ids (24 or 12 characters ending in '=', some SDKs) are turned into hex.
CREATE OR REPLACE TEMP MACRO otlp_id(s) AS
    CASE WHEN s = '' THEN NULL
         WHEN ends_with(s, '=') THEN lower(hex(TRY(from_base64(s))))
         ELSE lower(s) END;

-- text of one chunk of a streamed answer -> whether it says anything: the first chunk of a chat may name the role only, and leave before
-- the prompt is read. A chunk that is not OpenAI's is taken to speak.
CREATE OR REPLACE TEMP MACRO chunk_speaks(s) AS
    NOT contains(s, '"choices"')
    OR regexp_matches(s, '"(content|reasoning_content|reasoning|text|refusal)"\s*:\s*"[^"]|"(tool_calls|function_call)"\s*:\s*[\[{]\s*["{]');

-- Spans of trace stores ------------------------------------------------------------------------------------------------
-- `m`: MAP of a span's attributes to their values as text, made by span_map. The conventions read are OpenTelemetry GenAI,
-- OpenLLMetry, OpenInference, Langfuse, MLflow and the Vercel AI SDK: one span may carry several of them. The arguments of these macros
-- are to be columns, not expressions: they are used many times, and planning would take seconds.

-- names and values in the same order -> MAP; '' and '-' are not there, of a name that stands twice the first counts.
CREATE OR REPLACE TEMP MACRO span_map(k, v) AS
    map(list_distinct(k), list_transform(list_distinct(k), lambda n: present(v[list_position(k, n)])));

-- text -> the same as JSON, NULL for what is none.
CREATE OR REPLACE TEMP MACRO valid_json(s) AS CASE WHEN s[1] IN ('{', '[') AND json_valid(s) THEN CAST(s AS JSON) END;

-- one path of a text that may be JSON -> text.
CREATE OR REPLACE TEMP MACRO json_part(s, path) AS CASE WHEN s[1] IN ('{', '[') AND json_valid(s) THEN json_extract_string(s, path) END;

-- operation or type names of all conventions -> model | tool | agent | other | NULL for a name that says nothing.
CREATE OR REPLACE TEMP MACRO span_role_word(w) AS
    CASE WHEN upper(w) IN ('CHAT', 'TEXT_COMPLETION', 'COMPLETION', 'GENERATE_CONTENT', 'RESPONSES', 'LLM', 'CHAT_MODEL', 'GENERATION',
                           'AI.GENERATETEXT.DOGENERATE', 'AI.STREAMTEXT.DOSTREAM', 'AI.GENERATEOBJECT.DOGENERATE', 'AI.STREAMOBJECT.DOSTREAM') THEN 'model'
         WHEN upper(w) IN ('EXECUTE_TOOL', 'TOOL', 'RETRIEVER', 'RETRIEVAL', 'AI.TOOLCALL') THEN 'tool'
         WHEN upper(w) IN ('INVOKE_AGENT', 'INVOKE_WORKFLOW', 'AGENT', 'CHAIN', 'WORKFLOW', 'AI.GENERATETEXT', 'AI.STREAMTEXT') THEN 'agent'
         WHEN w IS NOT NULL THEN 'other' END;
CREATE OR REPLACE TEMP MACRO span_role(m) AS
    coalesce(nullif(span_role_word(m['gen_ai.operation.name']), 'other'),
             span_role_word(coalesce(m['openinference.span.kind'], m['langfuse.observation.type'], m['traceloop.span.kind'], m['mlflow.spanType'])),
             span_role_word(coalesce(m['ai.operationId'], m['llm.request.type'])), 'other');

-- what a span says about its failure -> ok | error | censored. `failed` = its status is an error.
CREATE OR REPLACE TEMP MACRO span_state(failed, why) AS
    CASE WHEN regexp_matches(why, '(?i)time(d )?.?out|deadline|cancel|abort|disconnect|client.?(closed|gone)|\b(408|460|499|504)\b') THEN 'censored'
         WHEN failed THEN 'error' ELSE 'ok' END;
CREATE OR REPLACE TEMP MACRO span_failure(failed, why) AS
    CASE WHEN regexp_matches(why, '(?i)time(d )?.?out|deadline|\b(408|504)\b') THEN 'timeout'
         WHEN span_state(failed, why) = 'censored' THEN 'client_gone'
         WHEN failed AND regexp_matches(why, '(?i)rate.?limit|\b429\b') THEN 'rate_limited'
         WHEN failed THEN 'upstream' END;

-- the columns of `attempt` that attributes tell, as a struct. `usage`, `cost`, `parameters`: valid JSON, or NULL, where they are kept apart.
CREATE OR REPLACE TEMP MACRO span_work(m, usage, cost, parameters) AS {
    'request_id': coalesce(coalesce(m['gen_ai.response.id'], m['llm.response.id'], m['ai.response.id']), to_text(json_part(m['output.value'], '$.id'))),
    'model': coalesce(coalesce(m['gen_ai.request.model'], m['llm.request.model_name'], m['llm.model_name'], m['langfuse.observation.model.name'], m['mlflow.llm.model']),
                      coalesce(m['ai.model.id'], m['gen_ai.response.model'])),
    'provider': coalesce(m['gen_ai.provider.name'], m['gen_ai.system'], m['llm.provider'], m['mlflow.llm.provider'], m['llm.system']),
    'replica': coalesce(m['server.address'] || coalesce(':' || m['server.port'], ''), coalesce(m['gen_ai.openai.api_base'], m['openai.api_base'])),
    'prompt_tokens': to_count(coalesce(coalesce(m['gen_ai.usage.input_tokens'], m['gen_ai.usage.prompt_tokens'], m['llm.token_count.prompt'], m['llm.usage.prompt_tokens'], m['ai.usage.promptTokens']),
        json_extract_string(usage, '$.prompt_tokens'), json_extract_string(usage, '$.input_tokens'),
        -- Langfuse counts cached input apart, also under Anthropic's names: the prompt is the sum
        CASE WHEN json_exists(usage, '$.input') THEN CAST(list_sum(list_transform(json_extract_string(usage,
            ['$.input', '$.input_cached_tokens', '$.input_cache_read', '$.cache_read_input_tokens', '$.input_cache_creation', '$.cache_creation_input_tokens']),
            lambda t: TRY_CAST(t AS BIGINT))) AS VARCHAR) END)),
    'cached_tokens': to_count(coalesce(coalesce(m['gen_ai.usage.cache_read.input_tokens'], m['gen_ai.usage.cache_read_input_tokens'], m['llm.token_count.prompt_details.cache_read'], m['llm.usage.cache_read_input_tokens']),
        json_extract_string(usage, '$.prompt_tokens_details.cached_tokens'), json_extract_string(usage, '$.input_cached_tokens'), json_extract_string(usage, '$.input_cache_read'),
        json_extract_string(usage, '$.cache_read_input_tokens'))),
    'completion_tokens': to_count(coalesce(coalesce(m['gen_ai.usage.output_tokens'], m['gen_ai.usage.completion_tokens'], m['llm.token_count.completion'], m['llm.usage.completion_tokens'], m['ai.usage.completionTokens']),
        json_extract_string(usage, '$.completion_tokens'), json_extract_string(usage, '$.output_tokens'),
        CAST(TRY_CAST(json_extract_string(usage, '$.output') AS BIGINT) + coalesce(TRY_CAST(json_extract_string(usage, '$.output_reasoning_tokens') AS BIGINT), 0) AS VARCHAR))),
    'reasoning_tokens': to_count(coalesce(coalesce(m['gen_ai.usage.reasoning_tokens'], m['gen_ai.usage.reasoning.output_tokens'], m['llm.token_count.completion_details.reasoning'], m['llm.usage.reasoning_tokens']),
        json_extract_string(usage, '$.completion_tokens_details.reasoning_tokens'), json_extract_string(usage, '$.output_reasoning_tokens'))),
    -- OpenInference keeps the parameters of the request as JSON, where stream stands for streams only
    'streamed': coalesce(to_bool(coalesce(m['gen_ai.request.stream'], m['gen_ai.is_streaming'], m['llm.is_streaming'])),
        to_bool(json_extract_string(parameters, '$.stream')), CASE WHEN m['llm.invocation_parameters'] IS NOT NULL THEN false END),
    'tool_names': tool_list(coalesce(coalesce(m['gen_ai.tool.definitions'], m['mlflow.chat.tools'], m['ai.prompt.tools']),
        json_part(coalesce(m['input.value'], m['langfuse.observation.input'], m['mlflow.spanInputs']), '$.tools'),
        '[' || nullif(array_to_string(list_filter(list_transform(map_keys(m), lambda n: CASE WHEN n LIKE 'llm.tools.%.json_schema' AND json_valid(m[n]) THEN m[n] END), lambda t: t IS NOT NULL), ','), '') || ']')),
    'sees_request': coalesce(m['gen_ai.tool.definitions'], m['llm.invocation_parameters'], m['input.value'], m['langfuse.observation.input'], m['mlflow.spanInputs']) IS NOT NULL,
    'n_choices': TRY_CAST(to_count(coalesce(m['gen_ai.request.choice.count'], m['gen_ai.request.choice_count'])) AS INTEGER),
    'http_status': TRY_CAST(coalesce(coalesce(m['http.response.status_code'], m['http.status_code'], m['error.code']),
                                     nullif(regexp_extract(m['error.type'], '\b([45]\d\d)\b', 1), '')) AS INTEGER),
    'cost': to_money(coalesce(coalesce(m['gen_ai.cost.total_cost'], m['llm.cost.total'], m['gen_ai.usage.cost'], m['gen_ai.usage.cost.total']), json_extract_string(cost, '$.total'), json_extract_string(cost, '$.total_cost'))),
    -- time to the first token where it is a number of its own
    'ttft_ns': coalesce(s_ns(coalesce(m['gen_ai.response.time_to_first_chunk'], m['gen_ai.server.time_to_first_token'])),
                        ms_ns(coalesce(m['ai.response.msToFirstChunk'], m['ai.stream.msToFirstChunk'], m['ai.response.msToFirstToken']))),
    'tool': coalesce(m['gen_ai.tool.name'], m['tool.name'], m['traceloop.entity.name'], m['ai.toolCall.name'])};

-- a span's bounds -> why it cannot be used, NULL if it can. A span without an end is one that never finished.
CREATE OR REPLACE TEMP MACRO span_fault(start_ns, end_ns) AS
    CASE WHEN start_ns IS NULL OR start_ns <= 0 OR start_ns > 7258118399999999999 THEN 'bad_time'
         WHEN end_ns < start_ns THEN 'negative_duration'
         WHEN end_ns - start_ns > 86400000000000 THEN 'duration_out_of_range' END;

-- when the first token came -> time to it, NULL where it cannot be one. `said_ns` where the source gives it as a duration.
CREATE OR REPLACE TEMP MACRO span_ttft(start_ns, end_ns, first_ns, said_ns, completion_tokens) AS
    CASE WHEN first_ns > start_ns AND (first_ns < end_ns OR (first_ns = end_ns AND completion_tokens = 1)) THEN first_ns - start_ns
         WHEN first_ns IS NULL AND said_ns > 0 AND said_ns < end_ns - start_ns THEN said_ns END;

-- all columns of one span, as a struct. `work` is span_work; `role` model | tool | agent | root | other; `first_ns` when the first token
-- came, `ttft` of span_ttft, `fault` of span_fault, `state` and `failure` of span_state and span_failure; `basis_ns` the clock's resolution.
CREATE OR REPLACE TEMP MACRO span_row(role, name, trace_id, span_id, parent_id, start_ns, end_ns, first_ns, ttft, fault, state, failure, work, basis_ns) AS {
    'kind': CASE WHEN role = 'other' THEN 'not_request' WHEN fault IS NOT NULL THEN 'reject' WHEN role = 'model' THEN 'attempt'
                 WHEN end_ns IS NULL OR trace_id IS NULL THEN 'not_request' ELSE role END,
    'reason': CASE WHEN role = 'other' THEN 'other_span' WHEN fault IS NOT NULL THEN fault WHEN role = 'model' THEN NULL
                   WHEN end_ns IS NULL THEN role || '_unfinished' WHEN trace_id IS NULL THEN role || '_without_trace' WHEN role <> 'tool' THEN 'turn_span' END,
    'note': CASE WHEN role <> 'model' OR fault IS NOT NULL THEN NULL WHEN end_ns IS NULL THEN 'never_finished' WHEN first_ns < start_ns THEN 'clock_skew'
                 WHEN first_ns = start_ns THEN 'ttft_zero' WHEN first_ns >= end_ns AND ttft IS NULL THEN 'ttft_equals_e2e' END,
    'request_id': CASE WHEN role = 'model' THEN coalesce(work.request_id, span_id) END,
    'attempt_id': span_id, 'parent_id': parent_id, 'turn_id': trace_id,
    'replica': work.replica, 'model': work.model, 'provider': work.provider, 'observer': 'client',
    'arrival_ns': start_ns,
    -- a failure of no length says nothing about time
    'e2e_ns': CASE WHEN fault IS NULL AND NOT (state <> 'ok' AND end_ns = start_ns) THEN end_ns - start_ns END,
    'ttft_ns': ttft, 'ttft_basis': CASE WHEN ttft IS NOT NULL THEN 'first_token' END,
    'resolution_ns': CAST(basis_ns AS BIGINT),
    -- more cached than there is prompt: Anthropic's count of the input leaves out what came from the cache
    'prompt_tokens': work.prompt_tokens + CASE WHEN work.cached_tokens > work.prompt_tokens THEN work.cached_tokens ELSE 0 END,
    'cached_tokens': work.cached_tokens,
    'completion_tokens': work.completion_tokens, 'reasoning_tokens': work.reasoning_tokens,
    'status': CASE WHEN end_ns IS NULL THEN 'censored' ELSE state END,
    'http_status': work.http_status,
    'error_kind': CASE WHEN end_ns IS NULL THEN 'unfinished' WHEN state <> 'ok' THEN failure END,
    'streamed': ttft IS NOT NULL OR work.streamed,
    'tools_offered': CASE WHEN role <> 'model' THEN NULL WHEN work.tool_names <> '' THEN true WHEN work.sees_request OR work.tool_names = '' THEN false END,
    'tool_names': CASE WHEN role = 'tool' THEN coalesce(work.tool, name) WHEN role <> 'model' THEN name ELSE nullif(work.tool_names, '') END,
    'n_choices': work.n_choices, 'cost': work.cost, 'currency': CASE WHEN work.cost IS NOT NULL THEN 'USD' END, 'weight': CAST(1 AS DOUBLE)};

-- what is read of a Langfuse observation, in all its spellings: also of a page or a trace that holds a list of them.
CREATE OR REPLACE TEMP MACRO langfuse_fields() AS
    '{"name": "VARCHAR", "type": "VARCHAR", "traceId": "VARCHAR", "trace_id": "VARCHAR", "id": "VARCHAR",
      "parentObservationId": "VARCHAR", "parent_observation_id": "VARCHAR", "startTime": "VARCHAR", "start_time": "VARCHAR", "endTime": "VARCHAR", "end_time": "VARCHAR",
      "completionStartTime": "VARCHAR", "completion_start_time": "VARCHAR", "level": "VARCHAR", "statusMessage": "VARCHAR", "status_message": "VARCHAR",
      "usageDetails": "VARCHAR", "usage_details": "VARCHAR", "costDetails": "VARCHAR", "cost_details": "VARCHAR", "modelParameters": "VARCHAR",
      "model_parameters": "VARCHAR", "model": "VARCHAR", "providedModelName": "VARCHAR", "provided_model_name": "VARCHAR", "toolDefinitions": "VARCHAR", "tool_definitions": "VARCHAR",
      "inputUsage": "BIGINT", "outputUsage": "BIGINT", "totalUsage": "BIGINT",
      "observations": "VARCHAR", "trace": {"observations": "VARCHAR"}}';

-- Ray Serve --------------------------------------------------------------------------------------------------------------
-- a message, with its colours taken off -> method, path, what was said of the end and ms of an access line; '' for any other message.
-- The address of the caller may stand before them.
CREATE OR REPLACE TEMP MACRO ray_plain(message) AS regexp_replace(coalesce(message, ''), '\x1b\[[0-9;]*m', '', 'g');
CREATE OR REPLACE TEMP MACRO ray_access(message) AS
    regexp_extract(message, '^(?:\S+ )?(\S+) (\S+) (\S+) ([0-9.]+)ms\s*$', ['method', 'path', 'said', 'ms']);
-- a line of the text encoding -> time, who wrote it and its message. On the console (Actor pid=.., ip=..) stands before it, an operator may
-- have added fields behind the id of the request, and lines of no request have none.
CREATE OR REPLACE TEMP MACRO ray_line(line) AS
    regexp_extract(line, '^(?:\([^)]*\) )?[A-Z]+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+) (\S+) (\S+) (?:([^\s-]\S*) )?(?:.*? )?-- (.*)$',
                   ['at', 'component', 'component_id', 'id', 'message']);
-- why a timed access line cannot be used, NULL if it can
CREATE OR REPLACE TEMP MACRO ray_fault(end_ns, e2e_ns, class) AS
    CASE WHEN end_ns IS NULL THEN 'bad_time' WHEN e2e_ns IS NULL THEN 'bad_duration' WHEN e2e_ns > 86400000000000 THEN 'duration_out_of_range'
         WHEN class IS NULL THEN 'unknown_status' END;

-- HAProxy ----------------------------------------------------------------------------------------------------------------
-- the fields of a line, whatever its encoding: line, record, text, start_ns, naive, request_ns, wait_ns, connect_ns, answer_ns, total_ns, asap, code, term,
-- retries, server, backend, verb, path, request_id, turn_id, model, streamed, sent_bytes, got_bytes, completion_tokens -> rows
CREATE OR REPLACE TEMP MACRO haproxy_rows(parsed) AS TABLE
WITH s AS (
    SELECT *, coalesce(request_ns, 0) + coalesce(wait_ns, 0) AS to_send_ns,
           coalesce(request_ns, 0) + coalesce(wait_ns, 0) + coalesce(connect_ns, 0) AS to_connect_ns,
           coalesce(request_ns, 0) + coalesce(wait_ns, 0) + coalesce(connect_ns, 0) + answer_ns AS to_headers_ns,
           coalesce(retries, 0) BETWEEN 1 AND 16 AS again,
           CASE WHEN term[1] IN ('C', 'c', 's') OR code < 0 THEN 'censored'
                -- an answer that began and was cut by the server or by the proxy
                WHEN code BETWEEN 200 AND 399 AND term[1] IN ('S', 'P', 'R', 'I', 'K', 'D', 'U') AND term[2] IN ('D', 'H', 'L') THEN 'error'
                ELSE http_class(code) END AS state
    FROM query_table(parsed)
), e AS (
    SELECT *, unnest(CASE WHEN again THEN range(0, retries + 1) ELSE [0] END) AS k FROM s
), a AS (
    SELECT *, k = CASE WHEN again THEN retries ELSE 0 END AS last,
           -- failed attempts stand in Tw, failed connects in Tc in some versions; where those between began is not known
           CASE WHEN again AND k = retries THEN to_connect_ns ELSE 0 END AS lag_ns
    FROM e
), b AS (
    SELECT *, CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns > lag_ns AND (asap OR to_headers_ns <= total_ns) THEN to_headers_ns - lag_ns END AS first_ns
    FROM a
)
SELECT line, record,
       CASE WHEN start_ns IS NULL AND code IS NULL OR verb IS NULL OR verb NOT IN ('POST', 'PUT') THEN 'not_request'
            WHEN start_ns IS NULL OR state IS NULL OR total_ns IS NULL OR total_ns > 86400000000000 THEN 'reject'
            ELSE 'attempt' END AS kind,
       CASE WHEN start_ns IS NULL AND code IS NULL THEN
                CASE WHEN regexp_matches(text, '(Server|Proxy|Backup Server) \S+ (is|has|started|stopped)|backend \S+ has no server') THEN 'server_state' ELSE 'unrecognised_line' END
            WHEN verb IS NULL OR verb NOT IN ('POST', 'PUT') THEN 'not_a_generation'
            WHEN start_ns IS NULL THEN 'bad_time'
            WHEN state IS NULL THEN 'unknown_status'
            WHEN total_ns IS NULL THEN 'bad_duration'
            WHEN total_ns > 86400000000000 THEN 'duration_out_of_range' END AS reason,
       nullif(concat_ws(',', CASE WHEN naive THEN 'naive_time' END, CASE WHEN asap AND last THEN 'logged_at_headers' END,
                        CASE WHEN again AND last THEN 'failed_in_queue_time' END,
                        CASE WHEN last AND streamed AND state <> 'error' AND NOT asap THEN ttft_fault(to_headers_ns - lag_ns, total_ns - lag_ns) END), '') AS note,
       request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       turn_id,
       CASE WHEN last THEN nullif(server, '<NOSRV>') END AS replica,
       backend AS pool, model,
       split_part(path, '?', 1) AS route,
       'edge' AS observer,
       TRY(start_ns + least(lag_ns, total_ns)) AS arrival_ns,
       CASE WHEN last THEN CASE WHEN NOT asap AND total_ns >= lag_ns AND (total_ns > lag_ns OR state <> 'error') THEN total_ns - lag_ns END
            -- one failed attempt: what it waited and took; of several the parts are not known
            WHEN retries = 1 AND to_connect_ns BETWEEN 1 AND total_ns THEN to_connect_ns END AS e2e_ns,
       first_ns AS ttft_ns,
       CASE WHEN first_ns IS NOT NULL THEN 'first_byte' END AS ttft_basis,
       CASE WHEN last AND to_headers_ns BETWEEN lag_ns AND total_ns + 1000000 THEN to_headers_ns - lag_ns END AS headers_ns,
       CASE WHEN NOT again THEN wait_ns END AS queue_ns,
       CASE WHEN NOT again AND wait_ns IS NOT NULL THEN 'measured' END AS queue_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       CASE WHEN last THEN completion_tokens END AS completion_tokens,
       sent_bytes AS request_bytes,
       CASE WHEN last AND NOT asap THEN got_bytes END AS response_bytes,
       CASE WHEN last THEN state ELSE 'error' END AS status,
       -- the status of a caller that left before the headers is made up
       CASE WHEN last AND code > 0 AND NOT (term[1] IN ('C', 'c') AND answer_ns IS NULL) THEN code END AS http_status,
       CASE WHEN NOT last THEN 'upstream'
            WHEN state = 'ok' THEN NULL
            WHEN term[1] IN ('C', 'c') OR code < 0 THEN 'client_gone'
            WHEN term[1] = 's' THEN 'timeout'
            WHEN code BETWEEN 200 AND 399 THEN 'upstream'
            ELSE http_kind(code) END AS error_kind,
       CASE WHEN again THEN last AND state = 'ok' END AS won,
       streamed,
       -- what became of the persistence cookie; - where the configuration has none
       CASE WHEN term[3] = 'V' THEN true WHEN term[3] IN ('N', 'I', 'D', 'E', 'O', 'U') THEN false END AS sticky_session,
       CAST(1 AS DOUBLE) AS weight
FROM b;

-- SGLang -----------------------------------------------------------------------------------------------------------------
-- meta_info of a finished request, in both generations of names: line, record, m (JSON), stream, and of the line it stood in stamp (its time) and
-- rid -> rows. The marks are wall clock, queue and e2e are durations; zeros and negative ones of older versions are no measurement.
CREATE OR REPLACE TEMP MACRO sglang_rows(parsed) AS TABLE
WITH v AS (
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
    FROM query_table(parsed)
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
FROM k;

-- nginx ------------------------------------------------------------------------------------------------------------------
-- a list of one value a send: ', ' within a group, ' : ' after an internal redirect
CREATE OR REPLACE TEMP MACRO nginx_list(s) AS string_split(replace(coalesce(s, ''), ' : ', ', '), ', ');
-- the variables of a line, whatever its encoding: line, record, naive, end_ns, total_ns, code, verb, path, addrs, states, heads, lasts, waits (lists, a
-- value a send; waits of the commercial queue directive), content (its type), completion (trimmed), cache, request_id, turn_id, model, segment, prompt_tokens,
-- completion_tokens, request_bytes, response_bytes -> a row a send, with end_ns, total_ns, code, verb, naive and the doubts of it for the format to judge
CREATE OR REPLACE TEMP MACRO nginx_rows(parsed) AS TABLE
WITH p AS (
    -- positions that were sends: not the name of a group, and not an answer that only pointed elsewhere inside nginx
    SELECT *, list_filter(range(1, places + 1), lambda i:
               -- without addresses a place of no time and no headers may be either: a refused connection or a group
               CASE WHEN addrs = [''] THEN i = places OR coalesce(s_ns(lasts[i]), 0) > 0 OR heads[i] <> '-' ELSE strpos(addrs[i], ':') > 0 END
               AND (i = places OR coalesce(TRY_CAST(states[i] AS INTEGER), 0) NOT BETWEEN 200 AND 399)) AS sends,
           coalesce(TRY_CAST(list_sum(list_transform(lasts, lambda s: s_ns(s))) AS BIGINT), 0) AS all_ns
    FROM (SELECT *, greatest(len(addrs), len(lasts)) AS places FROM query_table(parsed))
), q AS (
    SELECT *, unnest(CASE WHEN len(sends) > 0 AND len(sends) <= 64 THEN sends ELSE [places] END) AS i FROM p
), a AS (
    SELECT *, coalesce(list_position(sends, i), 1) - 1 AS k, i = coalesce(sends[-1], i) AS last,
           -- a large body is read before the first send
           CASE WHEN request_bytes >= 65536 AND total_ns - all_ns > 5000000 THEN total_ns - all_ns ELSE 0 END AS upload_ns,
           coalesce(TRY_CAST(list_sum(list_transform(list_slice(lasts, 1, i - 1), lambda s: s_ns(s))) AS BIGINT), 0) AS before_ns,
           s_ns(present(heads[i])) AS head_ns, s_ns(present(lasts[i])) AS own_ns,
           CASE WHEN content LIKE 'text/event-stream%' THEN true WHEN content IS NOT NULL AND code BETWEEN 200 AND 299 THEN false END AS streamed
    FROM q
), b AS (
    SELECT *, CASE WHEN k > 0 THEN least(upload_ns + before_ns, total_ns) ELSE 0 END AS lag_ns,
           CASE WHEN last AND code = 499 THEN 499
                ELSE coalesce(TRY_CAST(states[i] AS INTEGER), CASE WHEN last THEN code END) END AS own_code,
           last AND code BETWEEN 200 AND 399 AND completion IN ('', '-') AS cut
    FROM a
), c AS (
    SELECT *, CASE WHEN cut THEN 'censored' ELSE coalesce(http_class(own_code), CASE WHEN NOT last THEN 'error' END) END AS state,
           -- from the start of this attempt to its headers, the upload included
           CASE WHEN k = 0 THEN upload_ns + before_ns ELSE 0 END + head_ns AS to_headers_ns
    FROM b
)
SELECT line, record, end_ns, total_ns, code, verb, naive,
       nullif(concat_ws(',', CASE WHEN cut THEN 'cut_answer' END,
                        CASE WHEN last AND streamed AND state = 'ok' AND coalesce(verb IN ('POST', 'PUT'), true) THEN ttft_fault(to_headers_ns, total_ns - lag_ns + 1000000) END), '') AS doubts,
       request_id,
       CAST(k AS INTEGER) AS attempt_no,
       CASE WHEN k = 0 THEN 'primary' ELSE 'retry' END AS cause,
       turn_id,
       CASE WHEN strpos(addrs[i], ':') > 0 THEN addrs[i] END AS replica,
       model,
       split_part(path, '?', 1) AS route,
       segment,
       'edge' AS observer,
       TRY(end_ns - total_ns + lag_ns) AS arrival_ns,
       -- a refused connection is written as 0.000: no time at all
       CASE WHEN last THEN CASE WHEN total_ns - lag_ns = 0 AND state <> 'ok' THEN NULL ELSE total_ns - lag_ns END
            ELSE nullif(least(own_ns + CASE WHEN k = 0 THEN upload_ns ELSE 0 END, total_ns), 0) END AS e2e_ns,
       CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns BETWEEN 1 AND total_ns - lag_ns THEN to_headers_ns END AS ttft_ns,
       CASE WHEN last AND state <> 'error' AND streamed AND to_headers_ns BETWEEN 1 AND total_ns - lag_ns THEN 'first_byte' END AS ttft_basis,
       CASE WHEN to_headers_ns BETWEEN 0 AND total_ns + 1000000 THEN to_headers_ns END AS headers_ns,
       s_ns(present(waits[i])) AS queue_ns, CASE WHEN s_ns(present(waits[i])) IS NOT NULL THEN 'measured' END AS queue_basis,
       CAST(1000000 AS BIGINT) AS resolution_ns,
       prompt_tokens,
       CASE WHEN last THEN completion_tokens END AS completion_tokens,
       request_bytes,
       CASE WHEN last THEN response_bytes END AS response_bytes,
       state AS status, own_code AS http_status,
       CASE WHEN state = 'ok' THEN NULL WHEN cut THEN 'client_gone' WHEN own_code IS NULL THEN 'upstream' ELSE http_kind(own_code) END AS error_kind,
       CASE WHEN len(sends) > 1 THEN last AND state = 'ok' END AS won,
       CASE WHEN cache IN ('HIT', 'STALE', 'UPDATING', 'REVALIDATED') THEN true WHEN present(cache) IS NOT NULL THEN false END AS cache_hit,
       streamed,
       CAST(1 AS DOUBLE) AS weight
FROM c;

-- spans that are understood: line, record, name, m (the attributes), said (a role), bad, why, usage, costs, parameters (JSON), trace_id, span_id, parent_id,
-- start_ns, end_ns, first_ns (of an event), basis_ns (the clock's resolution) -> their rows
CREATE OR REPLACE TEMP MACRO rows_of_spans(understood) AS TABLE
WITH f AS MATERIALIZED (
    SELECT *, CASE WHEN said <> 'other' THEN said WHEN parent_id IS NULL AND trace_id IS NOT NULL AND end_ns IS NOT NULL THEN 'root' ELSE 'other' END AS role,
           span_fault(start_ns, end_ns) AS fault, span_state(bad, why) AS state, span_failure(bad, why) AS failure, span_work(m, usage, costs, parameters) AS work
    FROM query_table(understood)
), w AS MATERIALIZED (
    SELECT *, span_ttft(start_ns, end_ns, first_ns, work.ttft_ns, work.completion_tokens) AS ttft FROM f
)
SELECT line, record, unnest(span_row(role, name, trace_id, span_id, parent_id, start_ns, end_ns, first_ns, ttft, fault, state, failure, work, basis_ns))
FROM w;

-- spans of any store: line, record, name, attrs (list of key and text), trace_id, span_id, parent_id, start_ns, end_ns, first_ns (of an event), failed and
-- message -> their rows
CREATE OR REPLACE TEMP MACRO span_rows(spans) AS TABLE
WITH d AS MATERIALIZED (
    SELECT * EXCLUDE (attrs), span_map(list_transform(attrs, lambda x: x.key), list_transform(attrs, lambda x: x.text)) AS m FROM query_table(spans)
), e AS MATERIALIZED (
    SELECT *, span_role(m) AS said, coalesce(failed, false) AS bad, concat_ws(' ', m['error.type'], CASE WHEN failed THEN message END) AS why,
           valid_json(coalesce(m['llm.invocation_parameters'], m['langfuse.observation.model.parameters'], m['mlflow.spanInputs'])) AS parameters,
           valid_json(coalesce(m['langfuse.observation.usage_details'], m['mlflow.chat.tokenUsage'])) AS usage,
           valid_json(coalesce(m['langfuse.observation.cost_details'], m['mlflow.llm.cost'])) AS costs, 1000 AS basis_ns
    FROM d
)
SELECT * FROM rows_of_spans('e');
