-- Format 3: threads say when they go on by themselves: when the first of their open questions takes
-- its default. Runs that ended at their questions before have theirs there. Runs say which is the
-- oldest of their events that is kept, so that events that are lost differ from those dropped.

ALTER TABLE threads ADD COLUMN wakes_at INTEGER;

UPDATE threads SET wakes_at = (
    SELECT min(json_extract(interrupt, '$.expires_at')) FROM interrupts
    WHERE interrupts.org = threads.org AND interrupts.thread = threads.id
        AND answer IS NULL AND closed = 0 AND json_type(interrupt, '$.default') IS NOT NULL)
WHERE status = 'interrupted';

CREATE INDEX threads_due ON threads (wakes_at) WHERE wakes_at IS NOT NULL;

ALTER TABLE runs ADD COLUMN events_from INTEGER NOT NULL DEFAULT 1;
