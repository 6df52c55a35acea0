-- Format 6: partial text that runs emitted since their last durable event. One row has the text of
-- one commit, as a JSON array; its key is the position after the last piece.

CREATE TABLE pieces (
    org TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    pieces TEXT NOT NULL,
    PRIMARY KEY (org, run, seq, bytes),
    FOREIGN KEY (org, run) REFERENCES runs (org, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
