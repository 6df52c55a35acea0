-- Format 12: threads exist before their first run; their graph and status are then empty texts, the
-- graph only if none was given. Threads have metadata: a JSON object, or null if it is empty.
-- `thread_metadata` has its members that are strings, booleans or null, with their values as JSON,
-- by which threads are found.

ALTER TABLE threads ADD COLUMN metadata TEXT;

CREATE INDEX threads_by_creation ON threads (org, created_at, id);

CREATE TABLE thread_metadata (
    org TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    thread TEXT NOT NULL,
    PRIMARY KEY (org, name, value, thread),
    FOREIGN KEY (org, thread) REFERENCES threads (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_metadata_by_thread ON thread_metadata (org, thread);

DROP VIEW threads_now;
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
