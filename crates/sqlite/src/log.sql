-- Format 7: everything that a commit of a run writes besides checkpoints is in one row: its events,
-- the calls in their state at that time, and the usage it recorded. The rows of a run are adjacent:
-- `place` is composed of the number of the run and the number of the commit. Newer rows of a call
-- are merged with older ones, as in `record_call`.
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

CREATE TABLE numbered_runs (
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
    UNIQUE (org, id),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT;

INSERT INTO numbered_runs
SELECT rowid, org, id, thread, subject, graph, caller, input, options, idempotency_key, created_at,
    status, worker, fence, outcome, ended_at, cancel_requested, events_from
FROM runs ORDER BY rowid;

INSERT INTO log (place, first_seq, last_seq, at, events)
SELECT (number << 32) + row_number() OVER (PARTITION BY number ORDER BY last_seq),
    first_seq, last_seq, at, events
FROM events JOIN numbered_runs ON numbered_runs.org = events.org AND numbered_runs.id = events.run;

-- Calls had no reference to the run that made them, so they are added to the last run.
INSERT INTO log (place, first_seq, last_seq, at, calls)
SELECT coalesce(newest.place, number << 32) + row_number() OVER (
        PARTITION BY number ORDER BY calls.rowid),
    coalesce(newest.last_seq, 0) + 1, coalesce(newest.last_seq, 0),
    coalesce(calls.settled_at, calls.opened_at),
    json_array(json_array(lower(hex(calls.key)), calls.kind, calls.name, calls.node, calls.step,
        calls.effect, calls.state, json(calls.result), calls.made, calls.possibly_paid,
        calls.reused, calls.opened_at, calls.settled_at))
FROM calls
JOIN (SELECT org, thread, max(number) AS number FROM numbered_runs GROUP BY org, thread) last_run
    ON last_run.org = calls.org AND last_run.thread = calls.thread
LEFT JOIN (SELECT place >> 32 AS run, max(place) AS place, last_seq FROM log GROUP BY run) newest
    ON newest.run = number;

DROP TABLE events;
DROP TABLE calls;
CREATE TABLE kept_pieces AS SELECT * FROM pieces;
DROP TABLE pieces;
DROP TABLE runs;
ALTER TABLE numbered_runs RENAME TO runs;
CREATE INDEX runs_by_thread ON runs (org, thread);
CREATE UNIQUE INDEX runs_by_key ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- A thread has at most one unfinished run.
CREATE UNIQUE INDEX runs_open ON runs (org, thread) WHERE status IN ('pending', 'running');

CREATE TABLE pieces (
    org TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    pieces TEXT NOT NULL,
    PRIMARY KEY (org, run, seq, bytes),
    FOREIGN KEY (org, run) REFERENCES runs (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO pieces SELECT * FROM kept_pieces;
DROP TABLE kept_pieces;

CREATE VIEW threads_now AS
SELECT org, id, graph, status, created_at, wakes_at,
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
