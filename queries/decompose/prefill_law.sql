-- name: decompose/prefill_law
-- question: which models have a prefill time that could be fitted?
-- input: none
-- output: TEMP TABLE prefill_law, empty; filled with one row a model by the fit
CREATE OR REPLACE TEMP TABLE prefill_law (model VARCHAR, base_ns DOUBLE, per_token_ns DOUBLE, assume_uncached BOOLEAN);
