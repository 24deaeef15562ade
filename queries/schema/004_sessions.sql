-- name: 004_sessions
-- Sessions that a router keeps on one replica (a cookie, a session key): a copy elsewhere starts without what is kept there.
ALTER TABLE attempt ADD COLUMN sticky_session BOOLEAN;   -- this request was bound to its replica when it arrived
