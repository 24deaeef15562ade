-- name: ingest/ledger_forget
-- Takes the rows of files out that are about to be written anew.
DELETE FROM ingested_file WHERE list_contains($ids, file_id)
