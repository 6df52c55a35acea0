-- The tables of a new file, in format 16. The organisation is the first column of every key, except
-- in `workers` and `meta`, which belong to no organisation. Tables with rows that may be larger than
-- a quarter of a page have a rowid: only their keys are in a sorted index, and a row uses only as much
-- space as its content. Others have one if they need the order of insertion.

CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Threads exist before their first run; their graph and status are then empty texts, the graph only
-- if none was given. `wakes_at` is the time at which the thread resumes by itself, when the first of
-- its open questions takes its default. `metadata` is a JSON object, or null if it is empty.
CREATE TABLE threads (
    org TEXT NOT NULL,
    id TEXT NOT NULL,
    graph TEXT NOT NULL,
    status TEXT NOT NULL,
    head BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    wakes_at INTEGER,
    metadata TEXT,
    PRIMARY KEY (org, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_due ON threads (wakes_at) WHERE wakes_at IS NOT NULL;
CREATE INDEX threads_by_creation ON threads (org, created_at, id);
-- For listing threads by the time of their last change without reading all threads. Running threads
-- are few and change with each superstep, so they are found by status; the others by the time of
-- their last change.
CREATE INDEX threads_resting ON threads (org, updated_at, id)
WHERE status NOT IN ('pending', 'running');
CREATE INDEX threads_running ON threads (org, id) WHERE status IN ('pending', 'running');

-- Members of the metadata that are strings, booleans or null, with their values as JSON, by which
-- threads are found.
CREATE TABLE thread_metadata (
    org TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    thread TEXT NOT NULL,
    PRIMARY KEY (org, name, value, thread),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_metadata_by_thread ON thread_metadata (org, thread);

-- `events_from` is the number of the oldest retained event, so that lost events can be distinguished
-- from dropped ones. `base` is the position of the thread before the run: null while it is not known,
-- no bytes for a thread without checkpoints. `last_checkpoint` is the newest checkpoint of the thread
-- at the end of the run, null if it is not known or there was none; `answers` is the run whose
-- questions this one answers; `rolled_back_by` is the run that rolls this one back.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
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
    events_from INTEGER NOT NULL DEFAULT 1,
    base BLOB,
    last_checkpoint BLOB,
    answers TEXT,
    rolled_back_by TEXT,
    UNIQUE (org, id),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX runs_by_thread ON runs (org, thread);
CREATE UNIQUE INDEX runs_by_key ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- A thread has at most one run that is due or executed.
CREATE UNIQUE INDEX runs_open ON runs (org, thread) WHERE status IN ('pending', 'running');
-- Runs that wait for an earlier one are unfinished too.
CREATE INDEX runs_unfinished ON runs (org, thread, number)
WHERE status IN ('queued', 'pending', 'running');

-- Everything that a commit of a run writes besides checkpoints is in one row: its events, the calls in
-- their state at that time, and the usage it recorded. The rows of a run are adjacent: `place` is
-- composed of the number of the run and the number of the commit. Newer rows of a call are merged
-- with older ones, as in `record_call`.
--
-- While a run is open, its newest row has the thread's head and the time of its last change, so
-- that a superstep does not update the row of the thread; `threads_now` returns the current values.
CREATE TABLE log (
    place INTEGER PRIMARY KEY,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    head BLOB,
    calls TEXT,
    usage TEXT,
    events TEXT
) STRICT;

CREATE VIEW threads_now AS
SELECT org, id, graph, status, created_at, wakes_at, metadata,
    coalesce((SELECT log.head FROM log
              WHERE place BETWEEN open << 32 AND (open << 32) + 0xffffffff AND log.head IS NOT NULL
              ORDER BY place DESC LIMIT 1), head) AS head,
    max(updated_at, coalesce((SELECT at FROM log
              WHERE place BETWEEN open << 32 AND (open << 32) + 0xffffffff
              ORDER BY place DESC LIMIT 1), updated_at)) AS updated_at
FROM (SELECT threads.*, (SELECT number FROM runs
                         WHERE runs.org = threads.org AND runs.thread = threads.id
                             AND runs.status IN ('pending', 'running')) AS open
      FROM threads);

-- Partial text that runs emitted since their last durable event. One row has the text of one commit,
-- as a JSON array; its key is the position after the last piece.
CREATE TABLE pieces (
    org TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    pieces TEXT NOT NULL,
    PRIMARY KEY (org, run, seq, bytes),
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

-- The rows of checkpoints are in one tree, ordered by a number, so that a superstep changes one page.
-- The number is composed of the number of a block of ids and the last three bytes of the id. The ids
-- that a run assigns to its checkpoints are consecutive, so that a run has one block for each graph.
-- There are no foreign keys, because a thread need not have a row.
--
-- `seal` is a checksum over organisation, thread, graph, ids and number, which detects blocks that
-- lead to rows of another thread. The program computes it.
CREATE TABLE blocks (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    ns TEXT NOT NULL,
    prefix BLOB NOT NULL,
    number INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (org, thread, ns, prefix)
) STRICT, WITHOUT ROWID;
-- Finds the block of the graphs within a thread that has its newest ids.
CREATE INDEX blocks_within ON blocks (org, thread, prefix) WHERE ns > '';

-- `of` is the distance from the id to that of the checkpoint whose task results the row has, or that
-- id itself if the distance is too large.
CREATE TABLE checkpoint_rows (
    place INTEGER PRIMARY KEY,
    of ANY,
    tasks BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- For inspection, and for reading all checkpoints of a thread. Not suited for lookups by id.
CREATE VIEW checkpoints AS
SELECT org, thread, ns,
    CAST(prefix || unhex(printf('%06x', place & 0xffffff)) AS BLOB) AS id, of, tasks, body, place
FROM blocks
CROSS JOIN checkpoint_rows ON place BETWEEN number << 24 AND (number << 24) + 0xffffff;

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

-- `renewed_at` is the time of the last renewal of the lease.
CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Items are stored beyond threads. `path` has the labels of the namespace, with a dot before, between
-- and after them, so that namespaces with a common prefix are a range. `number` orders items by their
-- first put. `space` orders namespaces: it is the number of the first item of the namespace, the same
-- for all its unexpired items. `seal` is a checksum over the name of the item, its value and its
-- indexing.
CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    org TEXT NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    space INTEGER NOT NULL,
    value TEXT NOT NULL,
    indexing TEXT NOT NULL,
    seal BLOB NOT NULL,
    ttl_ms INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    UNIQUE (org, path, key)
) STRICT;
-- Covers the selection and the order of unexpired items in a range.
CREATE INDEX items_in_order ON items (org, path, space, number, expires_at);
CREATE INDEX items_due ON items (expires_at) WHERE expires_at IS NOT NULL;

-- Records that commits write for readers outside of their runs. `sequences` has the version of each
-- sequence, which stays when its records are deleted. `effects` has the records, each with the version
-- of its sequence after its write.
CREATE TABLE sequences (
    org TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (org, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE effects (
    org TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    format INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (org, kind, key, version)
) STRICT;
