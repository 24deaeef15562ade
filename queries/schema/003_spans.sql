-- name: 003_spans
-- What traces add: which span a model call stands in, and the spans of agents and of whole traces, which bound a turn.
ALTER TABLE attempt ADD COLUMN parent_id VARCHAR;     -- attempt_id of the span around it, as logged
ALTER TABLE tool_span ADD COLUMN role VARCHAR DEFAULT 'tool';   -- tool | agent | root (the outermost span of a trace)
