-- Format 8: each block has a seal, a checksum over its organisation, thread, graph, ids and number,
-- so that rows are found out that lead to the rows of another thread. The program fills it in.

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

-- For people, and for reading all of a thread. It finds no id quickly.
CREATE VIEW checkpoints AS
SELECT org, thread, ns,
    CAST(prefix || unhex(printf('%06x', place & 0xffffff)) AS BLOB) AS id, of, tasks, body, place
FROM blocks
CROSS JOIN checkpoint_rows ON place BETWEEN number << 24 AND (number << 24) + 0xffffff;
