-- Format 6: pieces of text that runs told since their last durable event. One row holds those of one
-- commit, as a JSON array; its key is the position after the last of them.

CREATE TABLE pieces (
    org TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    pieces TEXT NOT NULL,
    PRIMARY KEY (org, run, seq, bytes),
    FOREIGN KEY (org, run) REFERENCES runs (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
