-- name: decompose/replica_name
-- question: which replicas are there, in the order of the codes of decompose/diagnosis_attempt?
-- input: selected_attempt
-- output: one row a replica
SELECT DISTINCT replica FROM selected_attempt WHERE replica IS NOT NULL ORDER BY replica;
