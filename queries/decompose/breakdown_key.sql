-- name: decompose/breakdown_key
-- question: which groups are there?
-- input: request_dimension
-- output: one row a group, in the order of their codes
-- {by} is replaced by names from the closed list of dimensions
SELECT DISTINCT {by} FROM request_dimension ORDER BY {by};
