-- name: decompose/facts
-- question: what was selected, what was left out, and what is wrong with it?
-- input: selected_attempt, request, component, attempt_link
-- output: one row of counts
SELECT (SELECT count(*) FROM request) AS requests,
       (SELECT count(*) FROM selected_attempt) AS attempts,
       (SELECT min(arrival_ns) FROM request) AS first_ns,
       (SELECT max(arrival_ns) FROM request) AS last_ns,
       (SELECT count(DISTINCT request_key) FROM attempt_link) AS requests_read,
       (SELECT count(*) FROM selected_attempt WHERE logged_ttft_ns IS NOT NULL) AS ttft_logged,
       (SELECT count(*) FROM selected_attempt WHERE ttft_ns IS NOT NULL) AS ttft_known,
       (SELECT count(*) FROM selected_attempt WHERE ttft_issue = 'ttft_equals_e2e') AS ttft_equals_e2e,
       (SELECT count(*) FROM selected_attempt WHERE ttft_issue = 'clock_skew') AS clock_skew,
       (SELECT min(logged_ttft_ns) FROM selected_attempt WHERE ttft_issue = 'clock_skew') AS worst_skew_ns,
       (SELECT arg_min(replica, logged_ttft_ns) FROM selected_attempt WHERE ttft_issue = 'clock_skew') AS worst_skew_replica,
       (SELECT count(*) FROM selected_attempt WHERE ttft_issue = 'ttft_is_zero') AS ttft_is_zero,
       (SELECT count(*) FROM selected_attempt WHERE ttft_issue = 'ttft_after_end') AS ttft_after_end,
       (SELECT count(*) FROM selected_attempt WHERE ttft_issue = 'not_streamed') AS not_streamed,
       (SELECT count(*) FROM selected_attempt WHERE part_issue IS NOT NULL) AS bad_parts,
       (SELECT count(*) FROM request WHERE generation > 0) AS reused_ids,
       (SELECT count(*) FROM request WHERE status = 'ok' AND e2e_ns IS NULL) AS ok_without_e2e,
       (SELECT count(*) FROM request WHERE arrival_ns IS NULL) AS without_time,
       (SELECT count(*) FROM request WHERE weight <> 1) AS weighted,
       (SELECT count(*) FROM request WHERE status = 'censored') AS censored,
       (SELECT count(*) FROM component WHERE other_ns < 0) AS negative_other,
       (SELECT count(DISTINCT replica) FROM request) AS replicas,
       (SELECT count(DISTINCT observer) FROM request) AS observers,
       (SELECT sum(e2e_ns) FROM component) AS component_e2e_ns,
       (SELECT sum(other_ns) FROM component) AS component_other_ns;
