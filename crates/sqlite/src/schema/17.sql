-- Format 17: the bill, and starts for limits. A call outside of runs has usage without a run.

CREATE TABLE usage_now (
    org TEXT NOT NULL,
    invocation TEXT NOT NULL,
    run TEXT,
    started_at INTEGER NOT NULL,
    caller TEXT NOT NULL,
    fact TEXT NOT NULL,
    PRIMARY KEY (org, invocation)
) STRICT;
INSERT INTO usage_now SELECT org, invocation, run, started_at, caller, fact FROM usage;
DROP TABLE usage;
ALTER TABLE usage_now RENAME TO usage;
CREATE INDEX usage_by_run ON usage (org, run);

-- Facts that are not yet moved to the bill, in the order in which they were stored: all of a row of the
-- log, or one of the table `usage`. `number` starts again when the queue is empty.
CREATE TABLE usage_queue (
    number INTEGER PRIMARY KEY,
    place INTEGER,
    org TEXT,
    invocation TEXT,
    CHECK ((place IS NULL) = (invocation IS NOT NULL) AND (org IS NULL) = (invocation IS NULL))
) STRICT;
INSERT INTO usage_queue (place) SELECT place FROM log WHERE usage IS NOT NULL ORDER BY place;
INSERT INTO usage_queue (org, invocation)
SELECT org, invocation FROM usage ORDER BY started_at, org, invocation;

-- One row for each attempt of a model call. `provider_cost` is what the provider stated, `price` the
-- cost by the price table, both in millionths of a US dollar, and `saved` the cost of an answer that was
-- given without an attempt, whose `attempt` is 0. `tracer_id` is the id of the attempt in a tracer
-- outside, null without one.
CREATE TABLE model_calls (
    org TEXT NOT NULL,
    invocation TEXT NOT NULL,
    request TEXT NOT NULL,
    trace TEXT NOT NULL,
    run TEXT,
    graph TEXT,
    graph_version TEXT,
    agent TEXT,
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL,
    code TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cache_written_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    provider_call_id TEXT,
    provider_cost INTEGER,
    price INTEGER,
    saved INTEGER,
    prompt_hash BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    latency_ms INTEGER NOT NULL,
    first_token_ms INTEGER,
    tracer_id TEXT,
    PRIMARY KEY (org, invocation),
    CHECK ((run IS NULL) = (graph IS NULL) AND (run IS NULL) = (graph_version IS NULL))
) STRICT;
CREATE INDEX model_calls_by_run ON model_calls (org, run);
CREATE INDEX model_calls_by_start ON model_calls (org, started_at);
CREATE INDEX model_calls_by_account ON model_calls (account, started_at);
CREATE INDEX model_calls_by_key ON model_calls (key, started_at);

-- One row for each unit that an attempt used. `subject` is the run, or the invocation outside of runs;
-- `attempt` is the invocation. `cost` is in millionths of a US dollar, null if the price is unknown.
CREATE TABLE receipts (
    org TEXT NOT NULL,
    source TEXT NOT NULL,
    subject TEXT NOT NULL,
    attempt TEXT NOT NULL,
    unit TEXT NOT NULL,
    amount INTEGER NOT NULL,
    cost INTEGER,
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (org, source, subject, attempt, unit)
) STRICT;

-- Requests that started work, and the runs among it, of accounts and keys that have limits of them, by
-- time: for minutes the time itself (`span` is `moment`), for days and months the beginning of its
-- quarter of an hour.
CREATE TABLE starts (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    span TEXT NOT NULL,
    at INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (kind, id, span, at)
) STRICT, WITHOUT ROWID;
