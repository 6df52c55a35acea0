-- Format 1: checkpoints as runs store them. There are no foreign keys, because a thread need not
-- have a row. Tables with rows that may be larger than a quarter of a page have a rowid: only their
-- keys are in a sorted index, and a row uses only as much space as its content.

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

-- Parts of open supersteps: number 0 is external input, the others are task results, in order.
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

-- References from rows to blobs: part -1 is the checkpoint itself, the others are parts of the open
-- superstep.
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
