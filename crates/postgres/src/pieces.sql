-- Format 3: pieces of text that runs told since their last durable event. One row holds those of one
-- commit, as a JSON array; its key is the position after the last of them.

CREATE TABLE pieces (
    org text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    bytes bigint NOT NULL,
    pieces text NOT NULL,
    PRIMARY KEY (org, run, seq, bytes)
);
