-- Format 3: threads have the time at which they resume by themselves, when the first of their open
-- questions takes its default. For runs that ended at questions before this format, it is set here.
-- Runs have the number of their oldest retained event, so that lost events can be distinguished
-- from dropped ones.

ALTER TABLE threads ADD COLUMN wakes_at INTEGER;

UPDATE threads SET wakes_at = (
    SELECT min(json_extract(interrupt, '$.expires_at')) FROM interrupts
    WHERE interrupts.org = threads.org AND interrupts.thread = threads.id
        AND answer IS NULL AND closed = 0 AND json_type(interrupt, '$.default') IS NOT NULL)
WHERE status = 'interrupted';

CREATE INDEX threads_due ON threads (wakes_at) WHERE wakes_at IS NOT NULL;

ALTER TABLE runs ADD COLUMN events_from INTEGER NOT NULL DEFAULT 1;
