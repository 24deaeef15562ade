-- name: recommend/memory_usual
-- question: none; undoes recommend/memory_small
-- output: none
SET memory_limit = getvariable('usual_limit');
