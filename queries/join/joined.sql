-- name: join/joined
-- question: which attempts are looked at, if some requests were seen by several observers?
-- input: joined_attempt
-- output: TEMP VIEW observed
CREATE OR REPLACE TEMP VIEW observed AS FROM joined_attempt
