-- Format 0. The organisation is the first column of every key, except in `workers` and `meta`,
-- which belong to no organisation. Texts sort by their bytes, as in the other stores. There are no
-- foreign keys: every write for a thread holds the lock of its row, or of its name if it has no
-- row, and the statements check references themselves. A thread is deleted with everything it owns
-- in one transaction.

CREATE TABLE meta (
    key text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- `seq` is the number of the newest run's last event. `mark` identifies the last commit or claim,
-- so that a client that lost its connection can find out if it took effect. The free space in each
-- page allows a commit to store the new version of a row on the same page.
CREATE TABLE threads (
    org text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    graph text NOT NULL,
    status text NOT NULL,
    head bytea,
    seq bigint NOT NULL,
    mark bytea,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (org, id)
) WITH (fillfactor = 70);

CREATE TABLE runs (
    org text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    thread text COLLATE "C" NOT NULL,
    subject text NOT NULL,
    graph text NOT NULL,
    caller text NOT NULL,
    input text NOT NULL,
    options text NOT NULL,
    idempotency_key text COLLATE "C",
    created_at bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    fence bigint NOT NULL,
    outcome text,
    ended_at bigint,
    cancel_requested boolean NOT NULL,
    PRIMARY KEY (org, id)
);
CREATE INDEX runs_by_thread ON runs (org, thread, number);
CREATE UNIQUE INDEX runs_by_key ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- A thread has at most one unfinished run.
CREATE UNIQUE INDEX runs_open ON runs (org, thread) WHERE status IN ('pending', 'running');
CREATE INDEX runs_waiting ON runs (created_at, number) WHERE status IN ('pending', 'running');

-- One row has all events of one commit, as a JSON array.
CREATE TABLE events (
    org text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL,
    first_seq bigint NOT NULL,
    at bigint NOT NULL,
    events text NOT NULL,
    PRIMARY KEY (org, run, last_seq)
);

CREATE TABLE interrupts (
    org text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    run text COLLATE "C" NOT NULL,
    interrupt text NOT NULL,
    answer text,
    closed boolean NOT NULL,
    PRIMARY KEY (org, thread, id)
);
CREATE INDEX interrupts_open ON interrupts (org, thread) WHERE answer IS NULL AND NOT closed;

-- The journal. `mark` identifies the last announcement.
CREATE TABLE calls (
    org text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    name text NOT NULL,
    node text NOT NULL,
    step bigint NOT NULL,
    effect text NOT NULL,
    state text NOT NULL,
    result text,
    made bigint NOT NULL,
    possibly_paid bigint NOT NULL,
    reused bigint NOT NULL,
    mark bytea NOT NULL,
    opened_at bigint NOT NULL,
    settled_at bigint,
    PRIMARY KEY (org, thread, key)
) WITH (fillfactor = 80);

-- Usage is retained after its run and thread are deleted, for billing.
CREATE TABLE usage (
    org text COLLATE "C" NOT NULL,
    invocation text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    caller text NOT NULL,
    fact text NOT NULL,
    PRIMARY KEY (org, invocation)
);
CREATE INDEX usage_by_run ON usage (org, run);

-- `expires_at` is by the clock of this database, in milliseconds since 1970.
CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    started_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

CREATE FUNCTION database_time() RETURNS bigint LANGUAGE sql AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Aborts the transaction of a statement, with an error code of this program and a message.
CREATE FUNCTION refuse(code text, what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = what;
END
$$;

-- Checks that the claim of a worker is the newest; returns whether cancellation of the run was
-- requested. The caller has locked the row of the thread.
CREATE FUNCTION check_claim(
    in_org text, in_thread text, in_run text, in_worker text, in_fence bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    cancel boolean;
BEGIN
    SELECT r.cancel_requested INTO cancel FROM runs r
        WHERE r.org = in_org AND r.id = in_run AND r.thread = in_thread
          AND r.fence = in_fence AND r.worker = in_worker AND r.status = 'running';
    IF NOT FOUND THEN
        PERFORM refuse('WF001', in_run);
    END IF;
    RETURN cancel;
END
$$;

-- Locks the thread for a write, after checking that the claim of the worker is the newest.
CREATE FUNCTION hold(
    in_org text, in_thread text, in_run text, in_worker text, in_fence bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM threads t WHERE t.org = in_org AND t.id = in_thread FOR UPDATE;
    RETURN check_claim(in_org, in_thread, in_run, in_worker, in_fence);
END
$$;

-- Checkpoints as bytes. `blobs` has the blobs that a row refers to; the index finds the rows with
-- such references.
CREATE TABLE checkpoints (
    org text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    ns text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    of bytea,
    tasks bytea NOT NULL,
    body bytea NOT NULL,
    blobs bytea[] NOT NULL,
    PRIMARY KEY (org, thread, ns, id)
);
CREATE INDEX checkpoints_that_speak ON checkpoints (org) WHERE blobs <> '{}';

-- Parts of open supersteps, in the order of their numbers; at most one at each checkpoint is
-- external input. `mark` identifies the write, as in `threads`.
CREATE TABLE pending (
    org text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    ns text COLLATE "C" NOT NULL,
    of bytea NOT NULL,
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    outside boolean NOT NULL,
    body bytea NOT NULL,
    blobs bytea[] NOT NULL,
    mark bytea,
    PRIMARY KEY (org, thread, ns, of, number)
);
CREATE UNIQUE INDEX pending_outside ON pending (org, thread, ns, of) WHERE outside;
CREATE INDEX pending_that_speak ON pending (org) WHERE blobs <> '{}';

CREATE TABLE blobs (
    org text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (org, hash)
);

CREATE TABLE layouts (
    org text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (org, hash)
);

-- Returns the number of the advisory lock for the checkpoints of a thread, which need not have a
-- row, or for the blobs of an organisation.
CREATE FUNCTION lock_of(org text, thread text) RETURNS bigint LANGUAGE sql AS $$
    SELECT hashtextextended(concat_ws(' ', current_schema(), org, thread), 0)
$$;

-- Stores a checkpoint without blobs, or replaces the one with the same id.
CREATE FUNCTION put(
    in_org text, in_thread text, in_ns text, in_id bytea, in_of bytea, in_tasks bytea,
    in_body bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock_of(in_org, in_thread));
    INSERT INTO checkpoints (org, thread, ns, id, of, tasks, body, blobs)
        VALUES (in_org, in_thread, in_ns, in_id, in_of, in_tasks, in_body, '{}')
        ON CONFLICT (org, thread, ns, id) DO UPDATE SET of = excluded.of,
            tasks = excluded.tasks, body = excluded.body, blobs = excluded.blobs;
END
$$;

-- The common part of every commit of a run: claim, open questions, the thread's row, events,
-- outcome.
CREATE FUNCTION commit_run(
    in_org text, in_thread text, in_run text, in_worker text, in_fence bigint, in_at bigint,
    in_mark bytea, in_head bytea, in_leaves_step boolean, in_events text, in_count bigint,
    in_status text, in_outcome text,
    OUT seq bigint, OUT cancel_requested boolean
) LANGUAGE plpgsql AS $$
BEGIN
    -- The update takes the lock. If the claim is not the newest, it is rolled back.
    UPDATE threads t SET head = coalesce(in_head, t.head), status = in_status,
            updated_at = in_at, seq = t.seq + in_count, mark = in_mark
        WHERE t.org = in_org AND t.id = in_thread RETURNING t.seq - in_count INTO seq;
    cancel_requested := check_claim(in_org, in_thread, in_run, in_worker, in_fence);
    IF in_leaves_step THEN
        UPDATE interrupts i SET closed = true
            WHERE i.org = in_org AND i.thread = in_thread AND i.answer IS NULL AND NOT i.closed;
    END IF;
    IF in_count > 0 THEN
        INSERT INTO events (org, run, last_seq, first_seq, at, events)
            VALUES (in_org, in_run, seq + in_count, seq + 1, in_at, in_events);
    END IF;
    IF in_outcome IS NOT NULL THEN
        UPDATE runs r SET status = in_status, outcome = in_outcome, ended_at = in_at
            WHERE r.org = in_org AND r.id = in_run;
    END IF;
END
$$;
