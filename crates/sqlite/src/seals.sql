-- Format 8: each block has a seal, a checksum over its organisation, thread, graph, ids and number,
-- which detects blocks that lead to rows of another thread. The program computes it.

DROP VIEW checkpoints;
ALTER TABLE blocks RENAME TO old_blocks;

CREATE TABLE blocks (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    ns TEXT NOT NULL,
    prefix BLOB NOT NULL,
    number INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (org, thread, ns, prefix)
) STRICT, WITHOUT ROWID;

-- For inspection, and for reading all checkpoints of a thread. Not suited for lookups by id.
CREATE VIEW checkpoints AS
SELECT org, thread, ns,
    CAST(prefix || unhex(printf('%06x', place & 0xffffff)) AS BLOB) AS id, of, tasks, body, place
FROM blocks
CROSS JOIN checkpoint_rows ON place BETWEEN number << 24 AND (number << 24) + 0xffffff;
