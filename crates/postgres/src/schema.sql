-- The tables of a new schema, in format 11. The organisation is the first column of every key, except in `workers` and `meta`,
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
--
-- Threads exist before their first run; their graph and status are then empty texts, the graph only
-- if none was given. `wakes_at` is the time at which the thread resumes by itself, when the first of
-- its open questions takes its default. `metadata` is a JSON object as text, or null if it is empty.
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
    wakes_at bigint,
    metadata text,
    PRIMARY KEY (org, id)
) WITH (fillfactor = 70);
CREATE INDEX threads_due ON threads (wakes_at) WHERE wakes_at IS NOT NULL;
-- There is no index on the time of the last change: with one, each superstep would write to it. The
-- columns of these indices do not change with a superstep, so that the new version of the row stays
-- on its page.
CREATE INDEX threads_by_creation ON threads (org, created_at, id);

-- Returns metadata for comparisons. It is stored as text, because this type has no NUL characters,
-- and does not return numbers as they were written.
CREATE FUNCTION comparable(metadata text) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT replace(metadata, '\u0000', '\ufffd')::jsonb
$$;
CREATE INDEX threads_by_metadata ON threads USING gin (comparable(metadata) jsonb_path_ops)
WHERE metadata IS NOT NULL;

-- `base` is the position of the thread before the run: null while it is not known, no bytes for a
-- thread without checkpoints. `last_checkpoint` is the newest checkpoint of the thread at the end of
-- the run, null if it is not known or there was none; `answers` is the run whose questions this one
-- answers; `rolled_back_by` is the run that rolls this one back.
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
    base bytea,
    last_checkpoint bytea,
    answers text,
    rolled_back_by text,
    PRIMARY KEY (org, id)
);
CREATE INDEX runs_by_thread ON runs (org, thread, number);
CREATE UNIQUE INDEX runs_by_key ON runs (org, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- A thread has at most one run that is due or executed.
CREATE UNIQUE INDEX runs_open ON runs (org, thread) WHERE status IN ('pending', 'running');
-- Runs that wait for an earlier one are unfinished too.
CREATE INDEX runs_unfinished ON runs (org, thread, number)
WHERE status IN ('queued', 'pending', 'running');
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

-- Partial text that runs emitted since their last durable event. One row has the text of one commit,
-- as a JSON array; its key is the position after the last piece.
CREATE TABLE pieces (
    org text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    bytes bigint NOT NULL,
    pieces text NOT NULL,
    PRIMARY KEY (org, run, seq, bytes)
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

-- The journal.
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

-- `expires_at` is by the clock of this database, in milliseconds since 1970. `renewed_at` is the time
-- of the last renewal of the lease.
CREATE TABLE workers (
    id text COLLATE "C" PRIMARY KEY,
    renewed_at bigint NOT NULL,
    expires_at bigint NOT NULL
);

-- A lease that ends later than now by more than twice its length was renewed when the clock was
-- ahead, and is not valid.
CREATE FUNCTION is_valid_lease(renewed_at bigint, expires_at bigint, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT expires_at > now
        AND expires_at::numeric - now <= 2 * (expires_at::numeric - renewed_at)
$$;

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
-- such references. `seal` is a checksum over organisation, thread, graph and id, which detects rows
-- that were moved to another name. The content of a row has its own checksum.
CREATE TABLE checkpoints (
    org text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    ns text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    of bytea,
    tasks bytea NOT NULL,
    body bytea NOT NULL,
    blobs bytea[] NOT NULL,
    seal bytea NOT NULL,
    PRIMARY KEY (org, thread, ns, id)
);
CREATE INDEX checkpoints_that_speak ON checkpoints (org) WHERE blobs <> '{}';
-- Finds the newest checkpoint of the graphs within a thread in one seek.
CREATE INDEX checkpoints_within ON checkpoints (org, thread, id) WHERE ns <> '';

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

-- Computes the seal of a checkpoint.
CREATE FUNCTION seal_of(org text, thread text, ns text, id bytea) RETURNS bytea LANGUAGE sql STABLE
AS $$
    SELECT substr(sha256(convert_to(length(org)::text || ':' || org || length(thread)::text || ':'
        || thread || length(ns)::text || ':' || ns, 'UTF8') || id), 1, 8)
$$;

-- Stores a checkpoint without blobs, or replaces the one with the same id.
CREATE FUNCTION put(
    in_org text, in_thread text, in_ns text, in_id bytea, in_of bytea, in_tasks bytea,
    in_body bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock_of(in_org, in_thread));
    INSERT INTO checkpoints (org, thread, ns, id, of, tasks, body, blobs, seal)
        VALUES (in_org, in_thread, in_ns, in_id, in_of, in_tasks, in_body, '{}',
            seal_of(in_org, in_thread, in_ns, in_id))
        ON CONFLICT (org, thread, ns, id) DO UPDATE SET of = excluded.of,
            tasks = excluded.tasks, body = excluded.body, blobs = excluded.blobs,
            seal = excluded.seal;
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
DECLARE
    last bytea;
BEGIN
    -- The update takes the lock. If the claim is not the newest, it is rolled back.
    UPDATE threads t SET head = coalesce(in_head, t.head), status = in_status,
            updated_at = in_at, seq = t.seq + in_count, mark = in_mark
        WHERE t.org = in_org AND t.id = in_thread RETURNING t.seq - in_count, t.head INTO seq, last;
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
        UPDATE runs r SET status = in_status, outcome = in_outcome, ended_at = in_at,
                last_checkpoint = last
            WHERE r.org = in_org AND r.id = in_run;
    END IF;
END
$$;

-- Items are stored beyond threads. `path` has the labels of the namespace, with a dot before, between
-- and after them, so that namespaces with a common prefix are a range. `number` orders items by their
-- first put. `space` orders namespaces: it is the number of the first item of the namespace, the same
-- for all its unexpired items. `seal` is a checksum over the name of the item, its value and its
-- indexing.
CREATE TABLE items (
    org text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    space bigint NOT NULL,
    value text NOT NULL,
    indexing text NOT NULL,
    seal bytea NOT NULL,
    ttl_ms bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (org, path, key)
);
CREATE UNIQUE INDEX items_by_number ON items (number);
CREATE INDEX items_in_order ON items (org, path, space, number);
CREATE INDEX items_due ON items (expires_at, number) WHERE expires_at IS NOT NULL;

-- Puts an item, and deletes some other expired items. Puts into a namespace wait for each other, so
-- that the namespace starts only once.
--
-- Cannot deadlock: it waits for the namespace, then for the item of this name; the items that it
-- sweeps after that are skipped if another transaction has locked them.
CREATE FUNCTION put_item(
    in_org text, in_path text, in_key text, in_value text, in_indexing text, in_seal bytea,
    in_ttl_ms bigint, in_now bigint, in_expires_at bigint, in_swept bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    due bigint[];
    fresh bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(lock_of(in_org, 'items ' || in_path));
    due := ARRAY (SELECT i.number FROM items i WHERE i.expires_at <= in_now
                  ORDER BY i.expires_at, i.number LIMIT in_swept);
    -- An expired item has lost its position.
    DELETE FROM items i WHERE i.org = in_org AND i.path = in_path AND i.key = in_key
        AND i.expires_at <= in_now;
    UPDATE items i SET value = in_value, indexing = in_indexing, seal = in_seal,
            ttl_ms = in_ttl_ms, updated_at = in_now, expires_at = in_expires_at
        WHERE i.org = in_org AND i.path = in_path AND i.key = in_key;
    IF NOT FOUND THEN
        fresh := nextval(pg_get_serial_sequence('items', 'number'));
        INSERT INTO items (org, path, key, number, space, value, indexing, seal, ttl_ms,
                created_at, updated_at, expires_at)
            VALUES (in_org, in_path, in_key, fresh, coalesce((
                    SELECT i.space FROM items i WHERE i.org = in_org AND i.path = in_path
                        AND (i.expires_at IS NULL OR i.expires_at > in_now) LIMIT 1), fresh),
                in_value, in_indexing, in_seal, in_ttl_ms, in_now, in_now, in_expires_at);
    END IF;
    DELETE FROM items WHERE number IN (
        SELECT i.number FROM items i WHERE i.number = ANY (due) AND i.expires_at <= in_now
        FOR UPDATE SKIP LOCKED);
END
$$;

-- Records that commits write for readers outside of their runs. `sequences` has the version of each
-- sequence, which stays when its records are deleted. `effects` has the records, each with the version
-- of its sequence after its write.
CREATE TABLE sequences (
    org text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (org, kind, key)
);

CREATE TABLE effects (
    org text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    at bigint NOT NULL,
    format bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (org, kind, key, version)
);

-- Applies an effect: deletes the records up to a version, then writes a record if there is content.
-- If the sequence does not have the expected version, the transaction is aborted with the number of
-- the effect and the version found.
--
-- The row of the sequence is locked until the transaction ends, so that the versions of a sequence
-- become visible in their order.
CREATE FUNCTION apply_effect(
    in_number bigint, in_org text, in_kind text, in_key text, in_expected bigint,
    in_deletes_to bigint, in_at bigint, in_format bigint, in_content bytea
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before bigint;
BEGIN
    INSERT INTO sequences AS s (org, kind, key, version)
        VALUES (in_org, in_kind, in_key, 0) ON CONFLICT DO NOTHING;
    SELECT s.version INTO before FROM sequences s
        WHERE s.org = in_org AND s.kind = in_kind AND s.key = in_key FOR UPDATE;
    IF before <> in_expected THEN
        PERFORM refuse('WF002', in_number || ' ' || before);
    END IF;
    DELETE FROM effects e WHERE e.org = in_org AND e.kind = in_kind AND e.key = in_key
        AND e.version <= in_deletes_to;
    IF in_content IS NOT NULL THEN
        UPDATE sequences s SET version = before + 1
            WHERE s.org = in_org AND s.kind = in_kind AND s.key = in_key;
        INSERT INTO effects (org, kind, key, version, at, format, content)
            VALUES (in_org, in_kind, in_key, before + 1, in_at, in_format, in_content);
    END IF;
END
$$;
