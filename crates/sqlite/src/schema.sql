-- Format 0. The organisation is the first column of every key, except in `workers` and `meta`,
-- which belong to no organisation. Tables with a rowid have large rows, or need the order of
-- insertion.

CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
    org TEXT NOT NULL,
    id TEXT NOT NULL,
    graph TEXT NOT NULL,
    status TEXT NOT NULL,
    head BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (org, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    org TEXT NOT NULL,
    id TEXT NOT NULL,
    thread TEXT NOT NULL,
    subject TEXT NOT NULL,
    graph TEXT NOT NULL,
    caller TEXT NOT NULL,
    input TEXT NOT NULL,
    options TEXT NOT NULL,
    idempotency_key TEXT,
    created_at INTEGER NOT NULL,
    status TEXT NOT NULL,
    worker TEXT,
    fence INTEGER NOT NULL,
    outcome TEXT,
    ended_at INTEGER,
    cancel_requested INTEGER NOT NULL,
    PRIMARY KEY (org, id),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX runs_by_thread ON runs (org, thread);
CREATE UNIQUE INDEX runs_by_key ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- A thread has at most one unfinished run.
CREATE UNIQUE INDEX runs_open ON runs (org, thread) WHERE status IN ('pending', 'running');

CREATE TABLE steps (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    id BLOB NOT NULL,
    parent BLOB,
    ns TEXT NOT NULL,
    step INTEGER NOT NULL,
    source TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (org, thread, id),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT;

-- Task results of open supersteps.
CREATE TABLE writes (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    of BLOB NOT NULL,
    task BLOB NOT NULL,
    checksum BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (org, thread, of, task),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- One row has all events of one commit, as a JSON array.
CREATE TABLE events (
    org TEXT NOT NULL,
    run TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    events TEXT NOT NULL,
    PRIMARY KEY (org, run, last_seq),
    FOREIGN KEY (org, run) REFERENCES runs (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE interrupts (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    id BLOB NOT NULL,
    run TEXT NOT NULL,
    interrupt TEXT NOT NULL,
    answer TEXT,
    closed INTEGER NOT NULL,
    PRIMARY KEY (org, thread, id),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX interrupts_open ON interrupts (org, thread) WHERE answer IS NULL AND closed = 0;

-- The journal.
CREATE TABLE calls (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    key BLOB NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    node TEXT NOT NULL,
    step INTEGER NOT NULL,
    effect TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT,
    made INTEGER NOT NULL,
    possibly_paid INTEGER NOT NULL,
    reused INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    settled_at INTEGER,
    PRIMARY KEY (org, thread, key),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT;

-- Usage is retained after its run and thread are deleted, for billing.
CREATE TABLE usage (
    org TEXT NOT NULL,
    invocation TEXT NOT NULL,
    run TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    fact TEXT NOT NULL,
    PRIMARY KEY (org, invocation)
) STRICT;
CREATE INDEX usage_by_run ON usage (org, run);

CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
