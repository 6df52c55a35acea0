-- Format 14: runs have the newest checkpoint of their thread at their end, null if it is not known
-- or there was none; the run whose questions they answer; and the run that rolls them back.

ALTER TABLE runs ADD COLUMN last_checkpoint BLOB;
ALTER TABLE runs ADD COLUMN answers TEXT;
ALTER TABLE runs ADD COLUMN rolled_back_by TEXT;
