-- Format 3: partial text that runs emitted since their last durable event. One row has the text of
-- one commit, as a JSON array; its key is the position after the last piece.

CREATE TABLE pieces (
    org text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    bytes bigint NOT NULL,
    pieces text NOT NULL,
    PRIMARY KEY (org, run, seq, bytes)
);
