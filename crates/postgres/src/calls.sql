-- Format 2: calls come on record with the commits of their runs, which have marks of their own.

ALTER TABLE calls DROP COLUMN mark;
