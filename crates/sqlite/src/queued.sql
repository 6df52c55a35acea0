-- Format 10: a thread may have runs that wait for the one that goes. A run says where its thread
-- stood before it: nothing while that is not known, no bytes for a thread without checkpoints.

ALTER TABLE runs ADD COLUMN base BLOB;
CREATE INDEX runs_unfinished ON runs (org, thread, number)
WHERE status IN ('queued', 'pending', 'running');
