-- Format 13: records that commits write for readers outside of their runs. `sequences` has the
-- version of each sequence, which stays when its records are deleted. `effects` has the records,
-- each with the version of its sequence after its write.

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
