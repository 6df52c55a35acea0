-- Format 2: checkpoints exist only in the tables of format 1. Threads without checkpoints there
-- start over: they have no head and no open questions.

UPDATE threads SET head = NULL
WHERE head IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM checkpoints
    WHERE checkpoints.org = threads.org AND checkpoints.thread = threads.id
        AND checkpoints.ns = '' AND checkpoints.id = threads.head);

UPDATE interrupts SET closed = 1
WHERE answer IS NULL AND closed = 0 AND NOT EXISTS (
    SELECT 1 FROM threads
    WHERE threads.org = interrupts.org AND threads.id = interrupts.thread
        AND threads.head IS NOT NULL);

DROP TABLE writes;
DROP TABLE steps;
