-- name: decompose/prefill_law_add
-- question: what does the prefill of one model take?
-- input: none
-- output: one row added to prefill_law
-- parameters: model, base_ns, per_token_ns, assume_uncached
INSERT INTO prefill_law VALUES ($model, $base_ns, $per_token_ns, $assume_uncached);
