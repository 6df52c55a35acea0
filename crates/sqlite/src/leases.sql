-- Format 15: workers have the time of the last renewal of their lease instead of that of their start,
-- which nothing read.

ALTER TABLE workers RENAME COLUMN started_at TO renewed_at;
