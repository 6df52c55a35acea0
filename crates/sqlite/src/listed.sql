-- Format 5: indices for listing threads by the time of their last change without reading all
-- threads. Running threads are few and change with each superstep, so they are found by status; the
-- others by the time of their last change.

CREATE INDEX threads_resting ON threads (org, updated_at, id)
WHERE status NOT IN ('pending', 'running');

CREATE INDEX threads_running ON threads (org, id) WHERE status IN ('pending', 'running');
