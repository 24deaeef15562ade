-- name: store/copy_tool_span
-- question: what does the attached database hold?
-- input: held.tool_span
-- output: tool_span of the database in memory, same grain
INSERT INTO tool_span BY NAME SELECT * FROM held.tool_span;
