-- name: ingest/merge_tools
-- Input: `staged`, `repeated`, $format, $files. Output: rows of `tool_span`. A span that is in the table already is left out:
-- the union of spans would not see it either.
INSERT INTO tool_span BY NAME
SELECT DISTINCT ON (kind, turn_id, tool, arrival_ns, e2e_ns)
       $files[(line >> 40) + 1] AS file_id, line & 1099511627775 AS line, record, $format AS format,
       turn_id, tool_names AS tool, arrival_ns, e2e_ns, kind AS role
FROM staged
WHERE kind IN ('tool', 'agent', 'root') AND turn_id IS NOT NULL AND arrival_ns IS NOT NULL AND e2e_ns IS NOT NULL
  AND (line, record) NOT IN (SELECT (line, record) FROM repeated)
  AND NOT EXISTS (
      SELECT 1 FROM tool_span t
      WHERE t.turn_id = staged.turn_id AND t.arrival_ns = staged.arrival_ns AND t.e2e_ns = staged.e2e_ns
        AND t.role = staged.kind AND t.tool IS NOT DISTINCT FROM staged.tool_names)
