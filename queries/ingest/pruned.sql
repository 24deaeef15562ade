-- name: ingest/pruned
-- question: which of these files were read before and have no raw row left, since daily dropped the days before its mark?
-- input: history_mark, ingested_file, attempt; $ids: file_ids
-- output: one row (first day with raw rows, number of files), none if nothing was ever dropped
SELECT m.raw_from,
       (SELECT count(*) FROM ingested_file f
        WHERE list_contains($ids, f.file_id) AND f.accepted > 0 AND f.file_id NOT IN (SELECT file_id FROM attempt)) AS files
FROM history_mark m;
