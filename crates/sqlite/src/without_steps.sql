-- Format 2: checkpoints are only where format 1 has them. Threads that had none there start anew:
-- their head is none, and nobody waits for an answer.

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
