-- Format 5: threads are listed by when they last changed without reading all of them. Those that
-- run are few, and change with each superstep: they are found by what they are, the others by the
-- time at which they came to rest.

CREATE INDEX threads_resting ON threads (org, updated_at, id)
WHERE status NOT IN ('pending', 'running');

CREATE INDEX threads_running ON threads (org, id) WHERE status IN ('pending', 'running');
