-- Format 2: calls are recorded with the commits of their runs, which have their own marks.

ALTER TABLE calls DROP COLUMN mark;
