-- name: ingest/withdraw_rejects
-- As withdraw, for rejects. Several records of a document may share its last line: of these only the cut one goes.
DELETE FROM reject
WHERE file_id = $file AND (line > $line OR (line = $line AND reason IN ('cut_json', 'cut_csv', 'open_quote', 'cut_archive')))
