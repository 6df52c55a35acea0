-- Format 1: checkpoints as runs keep them. A thread need not have a row of its own, so that there
-- are no foreign keys. What may be larger than a quarter of a page lies in tables with a rowid:
-- there only the keys are sorted, and a row takes no more room than it has bytes.

CREATE TABLE checkpoints (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    ns TEXT NOT NULL,
    id BLOB NOT NULL,
    of BLOB,
    tasks BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (org, thread, ns, id)
) STRICT;

-- Parts of open supersteps: number 0 is what came from outside, the others are what became of
-- tasks, in order.
CREATE TABLE pending (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    ns TEXT NOT NULL,
    of BLOB NOT NULL,
    part INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (org, thread, ns, of, part)
) STRICT;

CREATE TABLE blobs (
    org TEXT NOT NULL,
    hash BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (org, hash)
) STRICT;

-- Which rows speak of which blobs: the checkpoint itself as part -1, or what is pending there.
CREATE TABLE blob_refs (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    ns TEXT NOT NULL,
    id BLOB NOT NULL,
    part INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (org, thread, ns, id, part, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_hash ON blob_refs (org, hash);

CREATE TABLE layouts (
    org TEXT NOT NULL,
    hash BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (org, hash)
) STRICT, WITHOUT ROWID;
