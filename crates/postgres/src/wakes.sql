-- Format 1: threads have the time at which they resume by themselves, when the first of their open
-- questions takes its default. For runs that ended at questions before this format, it is set here.

ALTER TABLE threads ADD COLUMN wakes_at bigint;

UPDATE threads t SET wakes_at = (
    SELECT min((i.interrupt::json ->> 'expires_at')::bigint) FROM interrupts i
    WHERE i.org = t.org AND i.thread = t.id AND i.answer IS NULL AND NOT i.closed
        AND i.interrupt::json -> 'default' IS NOT NULL)
WHERE t.status = 'interrupted';

CREATE INDEX threads_due ON threads (wakes_at) WHERE wakes_at IS NOT NULL;
