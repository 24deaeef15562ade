-- name: ingest/sure
-- Tells `raw` whether what it reads now was looked through for a bare NaN already. $sure.
SET VARIABLE hedgectl_sure = $sure
