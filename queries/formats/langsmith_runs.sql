-- format: langsmith_runs
-- title: LangSmith runs
-- spec: langsmith-sdk python/langsmith/schemas.py
-- source: a line of JSON for every run of Client().list_runs(project_name=...), or the bulk export
-- input: json
-- detect: run_type, start_time, trace_id|dotted_order, id
-- clock: wall clock of the SDK; times without a zone are UTC
-- resolution: 1us
-- observer: client
-- observes: request_id, attempt_id, parent_id, turn_id, model, provider, observer, arrival_ns, e2e_ns, ttft_ns, ttft_basis, resolution_ns,
--   prompt_tokens, cached_tokens, completion_tokens, status, error_kind, http_status, streamed, cost, currency, weight
-- hint: export whole traces (list_runs without run_type), else turns have no tools. Queue and prefill are not in it: read the engines' spans
--   too, into a database of their own
-- traps: times without a zone are UTC ; session_id is the project ; first_token_time is null when the integration does not set it ; costs are
--   text ; parents repeat the tokens of their children: only a leaf of type llm is a call ; status pending never finished ; a model's wrapper and
--   the SDK below it are two nested llm runs, folded into one
-- notes: never_finished = calls have no end in the trace, so their time is unknown
WITH c AS MATERIALIZED (
    SELECT line, record, j->>'$.name' AS name, to_text(j->>'$.trace_id') AS trace_id, to_text(j->>'$.id') AS span_id, to_text(j->>'$.parent_run_id') AS parent_id,
           iso_in_ns(j->>'$.start_time', NULL) AS start_ns, iso_in_ns(j->>'$.end_time', NULL) AS end_ns,
           coalesce(iso_in_ns(j->>'$.first_token_time', NULL),
                    list_min(list_transform(list_filter(TRY_CAST(CASE WHEN json_type(j->'$.events') = 'ARRAY' THEN j->'$.events' END AS JSON[]), lambda e: e->>'$.name' = 'new_token'),
                                            lambda e: iso_in_ns(e->>'$.time', NULL)))) AS first_ns,
           coalesce(j->>'$.status' = 'error' OR present(j->>'$.error') IS NOT NULL, false) AS bad, present(j->>'$.error') AS why,
           lower(j->>'$.run_type') AS run_type,
           span_map(['llm.token_count.prompt', 'llm.token_count.completion', 'llm.token_count.prompt_details.cache_read', 'llm.token_count.completion_details.reasoning',
                     'llm.cost.total', 'llm.model_name', 'llm.provider', 'error.type'],
                    [j->>'$.prompt_tokens', j->>'$.completion_tokens', j->>'$.prompt_token_details.cache_read', j->>'$.completion_token_details.reasoning',
                     j->>'$.total_cost', coalesce(j->>'$.extra.metadata.ls_model_name', j->>'$.extra.invocation_params.model'), j->>'$.extra.metadata.ls_provider', j->>'$.error']) AS m,
           CAST(NULL AS JSON) AS usage, CAST(NULL AS JSON) AS costs, valid_json(j->>'$.extra.invocation_params') AS parameters
    FROM raw
), e AS MATERIALIZED (
    SELECT *, coalesce(span_role_word(run_type), 'other') AS said, 1000 AS basis_ns FROM c
)
SELECT * FROM rows_of_spans('e')
