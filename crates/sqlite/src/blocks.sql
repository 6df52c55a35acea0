-- Format 4: the rows of checkpoints are in one tree, ordered by a number, so that a superstep
-- changes one page. The number is composed of the number of a block of ids and the last three bytes
-- of the id. The ids that a run assigns to its checkpoints are consecutive, so that a run has one
-- block for each graph. `of` is the distance from the id to that of the checkpoint whose task
-- results the row has, or that id itself if the distance is too large.

ALTER TABLE checkpoints RENAME TO old_checkpoints;

CREATE TABLE blocks (
    org TEXT NOT NULL,
    thread TEXT NOT NULL,
    ns TEXT NOT NULL,
    prefix BLOB NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (org, thread, ns, prefix)
) STRICT, WITHOUT ROWID;

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

INSERT INTO blocks (org, thread, ns, prefix, number)
SELECT org, thread, ns, prefix, row_number() OVER (ORDER BY org, thread, ns, prefix)
FROM (SELECT DISTINCT org, thread, ns, substr(id, 1, 13) AS prefix FROM old_checkpoints);

INSERT INTO checkpoint_rows (place, of, tasks, body)
SELECT (number << 24)
        | ((instr('0123456789ABCDEF', substr(hex(id), 27, 1)) - 1) << 20)
        | ((instr('0123456789ABCDEF', substr(hex(id), 28, 1)) - 1) << 16)
        | ((instr('0123456789ABCDEF', substr(hex(id), 29, 1)) - 1) << 12)
        | ((instr('0123456789ABCDEF', substr(hex(id), 30, 1)) - 1) << 8)
        | ((instr('0123456789ABCDEF', substr(hex(id), 31, 1)) - 1) << 4)
        | (instr('0123456789ABCDEF', substr(hex(id), 32, 1)) - 1),
    of, tasks, body
FROM old_checkpoints AS old
JOIN blocks ON blocks.org = old.org AND blocks.thread = old.thread AND blocks.ns = old.ns
    AND blocks.prefix = substr(id, 1, 13)
ORDER BY 1;

DROP TABLE old_checkpoints;
