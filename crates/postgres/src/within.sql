-- Format 7: the newest checkpoint of the graphs within a thread is found in one seek.

CREATE INDEX checkpoints_within ON checkpoints (org, thread, id) WHERE ns <> '';
