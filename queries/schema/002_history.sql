-- name: 002_history
-- What outlives the raw rows: additive log buckets and counts a day and scope. They add exactly, in any order.
-- '' stands for an unknown model or route, so that a key is never NULL.

CREATE TABLE history_bucket (
    day      DATE NOT NULL,
    model    VARCHAR NOT NULL,
    route    VARCHAR NOT NULL,
    metric   VARCHAR NOT NULL,       -- e2e | ttft | ttfc_streamed | ttfc_whole: callers; primary_e2e | primary_ttft: the unhedged service
    bucket   INTEGER NOT NULL,       -- floor(log_1.01(nanoseconds))
    events   BIGINT NOT NULL,        -- finished
    censored BIGINT NOT NULL,        -- known to be longer: losers, timeouts, hang-ups
    PRIMARY KEY (day, model, route, metric, bucket)
);

CREATE TABLE history_day (
    day          DATE NOT NULL,
    model        VARCHAR NOT NULL,
    route        VARCHAR NOT NULL,
    currency     VARCHAR NOT NULL,   -- '' where no row of the day has a cost
    requests     BIGINT NOT NULL,
    attempts     BIGINT NOT NULL,
    hedges       BIGINT NOT NULL,
    hedge_wins   BIGINT NOT NULL,
    cancels      BIGINT NOT NULL,    -- attempts that were cut off because another one had answered
    errors       BIGINT NOT NULL,
    censored     BIGINT NOT NULL,    -- requests without an answer that may have been slow rather than failed
    costed       BIGINT NOT NULL,    -- requests with a cost
    cost         DECIMAL(38, 12) NOT NULL,
    winners_cost DECIMAL(38, 12) NOT NULL,
    PRIMARY KEY (day, model, route, currency)
);

-- Days before this one have no raw rows any more: they are only added to.
CREATE TABLE history_mark (
    raw_from DATE NOT NULL
);
