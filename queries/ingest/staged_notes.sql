-- name: ingest/staged_notes
-- Input: `staged`. Output: note codes that the format put on rows it kept, and how often.
SELECT code, count(*) FROM (SELECT unnest(string_split(note, ',')) AS code FROM staged WHERE note IS NOT NULL AND kind IS DISTINCT FROM 'reject') GROUP BY code
