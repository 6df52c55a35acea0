-- Format 11: which block of the graphs within a thread has its newest ids.

CREATE INDEX blocks_within ON blocks (org, thread, prefix) WHERE ns > '';
