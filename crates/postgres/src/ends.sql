-- Format 10: runs have the newest checkpoint of their thread at their end, null if it is not known
-- or there was none; the run whose questions they answer; and the run that rolls them back.

ALTER TABLE runs ADD COLUMN last_checkpoint bytea;
ALTER TABLE runs ADD COLUMN answers text;
ALTER TABLE runs ADD COLUMN rolled_back_by text;

CREATE OR REPLACE FUNCTION commit_run(
    in_org text, in_thread text, in_run text, in_worker text, in_fence bigint, in_at bigint,
    in_mark bytea, in_head bytea, in_leaves_step boolean, in_events text, in_count bigint,
    in_status text, in_outcome text,
    OUT seq bigint, OUT cancel_requested boolean
) LANGUAGE plpgsql AS $$
DECLARE
    last bytea;
BEGIN
    -- The update takes the lock. If the claim is not the newest, it is rolled back.
    UPDATE threads t SET head = coalesce(in_head, t.head), status = in_status,
            updated_at = in_at, seq = t.seq + in_count, mark = in_mark
        WHERE t.org = in_org AND t.id = in_thread RETURNING t.seq - in_count, t.head INTO seq, last;
    cancel_requested := check_claim(in_org, in_thread, in_run, in_worker, in_fence);
    IF in_leaves_step THEN
        UPDATE interrupts i SET closed = true
            WHERE i.org = in_org AND i.thread = in_thread AND i.answer IS NULL AND NOT i.closed;
    END IF;
    IF in_count > 0 THEN
        INSERT INTO events (org, run, last_seq, first_seq, at, events)
            VALUES (in_org, in_run, seq + in_count, seq + 1, in_at, in_events);
    END IF;
    IF in_outcome IS NOT NULL THEN
        UPDATE runs r SET status = in_status, outcome = in_outcome, ended_at = in_at,
                last_checkpoint = last
            WHERE r.org = in_org AND r.id = in_run;
    END IF;
END
$$;
