-- name: recommend/memory_small
-- question: none; the database gives its memory back (tables go to the temporary folder) while something else needs it
-- output: none; recommend/memory_usual undoes it
SET VARIABLE usual_limit = current_setting('memory_limit');
SET memory_limit = '128MB';
