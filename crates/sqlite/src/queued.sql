-- Format 10: a thread may have runs that wait for an earlier one. `base` is the position of the
-- thread before the run: null while it is not known, no bytes for a thread without checkpoints.

ALTER TABLE runs ADD COLUMN base BLOB;
CREATE INDEX runs_unfinished ON runs (org, thread, number)
WHERE status IN ('queued', 'pending', 'running');
