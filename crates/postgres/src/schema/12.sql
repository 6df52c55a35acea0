-- Format 12: the bill, and starts for limits. A call outside of runs has usage without a run.

ALTER TABLE usage ALTER COLUMN run DROP NOT NULL;

-- `moved` is true once the fact is in the bill. Facts are moved in the order of their start.
ALTER TABLE usage ADD COLUMN moved boolean NOT NULL DEFAULT false;
CREATE INDEX usage_unmoved ON usage (started_at, org, invocation) WHERE NOT moved;

-- One row for each attempt of a model call. `provider_cost` is what the provider stated, `price` the
-- cost by the price table, both in millionths of a US dollar, and `saved` the cost of an answer that was
-- given without an attempt, whose `attempt` is 0. `tracer_id` is the id of the attempt in a tracer
-- outside, null without one.
CREATE TABLE model_calls (
    org text COLLATE "C" NOT NULL,
    invocation text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    trace text COLLATE "C" NOT NULL,
    run text COLLATE "C",
    graph text COLLATE "C",
    graph_version text COLLATE "C",
    agent text COLLATE "C",
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    provider text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    status text COLLATE "C" NOT NULL,
    code text COLLATE "C",
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    cache_written_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    estimated boolean NOT NULL,
    provider_call_id text COLLATE "C",
    provider_cost bigint,
    price bigint,
    saved bigint,
    prompt_hash bytea NOT NULL,
    started_at bigint NOT NULL,
    latency_ms bigint NOT NULL,
    first_token_ms bigint,
    tracer_id text COLLATE "C",
    PRIMARY KEY (org, invocation),
    CHECK ((run IS NULL) = (graph IS NULL) AND (run IS NULL) = (graph_version IS NULL))
);
CREATE INDEX model_calls_by_run ON model_calls (org, run);
CREATE INDEX model_calls_by_start ON model_calls (org, started_at);
CREATE INDEX model_calls_by_account ON model_calls (account, started_at);
CREATE INDEX model_calls_by_key ON model_calls (key, started_at);

-- One row for each unit that an attempt used. `subject` is the run, or the invocation outside of runs;
-- `attempt` is the invocation. `cost` is in millionths of a US dollar, null if the price is unknown.
CREATE TABLE receipts (
    org text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    attempt text COLLATE "C" NOT NULL,
    unit text COLLATE "C" NOT NULL,
    amount bigint NOT NULL,
    cost bigint,
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (org, source, subject, attempt, unit)
);

-- Requests that started work, and the runs among it, of accounts and keys that have limits of them, by
-- time: for minutes the time itself (`span` is `moment`), for days and months the beginning of its
-- quarter of an hour.
CREATE TABLE starts (
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    span text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    requests bigint NOT NULL,
    runs bigint NOT NULL,
    PRIMARY KEY (kind, id, span, at)
);
