-- Format 16: a file that is not open has no write-ahead log, and its header says so. One whose header
-- names a log that is not there was copied while it was open.

SELECT 1;
