-- Format 9: items, which are remembered beyond threads. `path` is the labels of the namespace with
-- a dot before, between and after them, so that namespaces that begin alike are a range. `number`
-- tells which item was put first, `space` which namespace: it is the number of the item with which
-- the namespace began, the same for all of its items that live. `seal` is a checksum over the names
-- that lead to the row, and over value and indexing.

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
-- Has all that says which items of a range live, and in which order they come.
CREATE INDEX items_in_order ON items (org, path, space, number, expires_at);
CREATE INDEX items_due ON items (expires_at) WHERE expires_at IS NOT NULL;
