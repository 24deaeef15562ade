-- name: 001_init
-- Canonical tables. Append-only numbering: a later change is a new file.
-- Units: *_ns integer nanoseconds, *_tokens, *_bytes, money in `currency`. NULL = not observed, 0 = observed zero. Times are UTC.

-- One row a file that was read, so that the same bytes are never counted twice and a growing file is resumed.
CREATE TABLE ingested_file (
    file_id          INTEGER PRIMARY KEY,
    path             VARCHAR NOT NULL,
    format           VARCHAR NOT NULL,
    fingerprint      VARCHAR NOT NULL,      -- sha256 of the first 64 kB decompressed
    fingerprint_bytes BIGINT NOT NULL,      -- how many bytes that hash covers
    bytes_read       BIGINT NOT NULL,       -- decompressed bytes consumed, ending at a newline
    tail_fingerprint VARCHAR NOT NULL,      -- sha256 of the last 64 kB before bytes_read: two files may begin alike
    open_bytes       BIGINT NOT NULL,       -- bytes of a last line without a newline; read again when the file grows
    open_counts      BIGINT[] NOT NULL,     -- that line's part of the counts below: accepted, duplicates, not_requests, rejected
    lines            BIGINT NOT NULL,       -- lines (or records) seen
    accepted         BIGINT NOT NULL,
    duplicates       BIGINT NOT NULL,
    not_requests     BIGINT NOT NULL,
    rejected         BIGINT NOT NULL,
    last_line        BIGINT NOT NULL,       -- number of physical lines up to bytes_read
    batch_id         INTEGER NOT NULL
);

CREATE TABLE reject (
    file_id  INTEGER NOT NULL,
    line     BIGINT NOT NULL,
    reason   VARCHAR NOT NULL,              -- stable code, e.g. cut_json
    text     VARCHAR                        -- first 200 characters
);

-- One row a physical attempt: one send to one replica.
CREATE TABLE attempt (
    -- identity
    file_id             INTEGER NOT NULL,
    line                BIGINT NOT NULL,    -- 1-based line of the decompressed file
    record              INTEGER NOT NULL,   -- 0-based record within the line
    format              VARCHAR NOT NULL,
    request_id          VARCHAR NOT NULL,   -- logical request; made from file and line where the log has none
    attempt_id          VARCHAR,            -- as logged, NULL where the log has none
    attempt_no          INTEGER,            -- 0 = primary; NULL = to be numbered by start time
    cause               VARCHAR,            -- primary | hedge | retry
    turn_id             VARCHAR,            -- agent turn or trace this call belongs to
    content_hash        UBIGINT,            -- of the record's canonical values, whatever the order of its keys: tells a repetition from a reused id
    -- place
    replica             VARCHAR,
    pool                VARCHAR,
    model               VARCHAR,            -- model or model group a caller asks for: the scope
    route               VARCHAR,
    provider            VARCHAR,
    segment             VARCHAR,
    observer            VARCHAR NOT NULL,   -- client | edge | gateway | engine
    -- time
    arrival_ns          BIGINT,             -- planned send where the source has it
    e2e_ns              BIGINT,
    ttft_ns             BIGINT,
    ttft_basis          VARCHAR,            -- first_token | first_byte | engine
    headers_ns          BIGINT,             -- time to response headers, where the source sees it
    queue_ns            BIGINT,  queue_basis     VARCHAR,   -- measured | derived | estimated; NULL = not observed
    prefill_ns          BIGINT,  prefill_basis   VARCHAR,
    decode_ns           BIGINT,  decode_basis    VARCHAR,
    tool_wait_ns        BIGINT,  tool_wait_basis VARCHAR,
    resolution_ns       BIGINT,             -- of the source's clock
    -- work
    prompt_tokens       BIGINT,
    cached_tokens       BIGINT,
    completion_tokens   BIGINT,
    reasoning_tokens    BIGINT,
    request_bytes       BIGINT,
    response_bytes      BIGINT,
    -- state
    status              VARCHAR NOT NULL,   -- ok | error | censored
    http_status         INTEGER,
    error_kind          VARCHAR,            -- timeout | client_gone | loser | rate_limited | upstream | ... ; why it is not ok
    won                 BOOLEAN,            -- the caller got this attempt's answer; NULL = to be derived
    cache_hit           BOOLEAN,            -- response cache: no engine was called
    streamed            BOOLEAN,
    tools_offered       BOOLEAN,
    stored_state        BOOLEAN,            -- needs a server-side context, session or stored conversation
    batch               BOOLEAN,
    n_choices           INTEGER,
    tool_names          VARCHAR,            -- comma-separated, sorted
    closed_loop         BOOLEAN,            -- the source waits for answers before it sends
    -- money and weight
    cost                DECIMAL(24, 12),
    currency            VARCHAR,
    weight              DOUBLE NOT NULL DEFAULT 1   -- rows this row stands for, in a sampled log
);

-- One row a tool call of an agent turn: tool wait is the union of these minus the union of the turn's model calls.
CREATE TABLE tool_span (
    file_id     INTEGER NOT NULL,
    line        BIGINT NOT NULL,
    record      INTEGER NOT NULL,
    format      VARCHAR NOT NULL,
    turn_id     VARCHAR NOT NULL,
    tool        VARCHAR,
    arrival_ns  BIGINT NOT NULL,
    e2e_ns      BIGINT NOT NULL
);
