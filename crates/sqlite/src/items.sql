-- Format 9: items, which are stored beyond threads. `path` has the labels of the namespace, with a
-- dot before, between and after them, so that namespaces with a common prefix are a range. `number`
-- orders items by their first put. `space` orders namespaces: it is the number of the first item of
-- the namespace, the same for all its unexpired items. `seal` is a checksum over the name of the
-- item, its value and its indexing.

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
