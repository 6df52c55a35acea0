-- Format 8: threads exist before their first run; their graph and status are then empty texts, the
-- graph only if none was given. Threads have metadata: a JSON object as text, or null if it is
-- empty.
--
-- There is no index on the time of the last change: with one, each superstep would write to it. The
-- columns of these indices do not change with a superstep, so that the new version of the row stays
-- on its page.

ALTER TABLE threads ADD COLUMN metadata text;
CREATE INDEX threads_by_creation ON threads (org, created_at, id);

-- Returns metadata for comparisons. It is stored as text, because this type has no NUL characters,
-- and does not return numbers as they were written.
CREATE FUNCTION comparable(metadata text) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT replace(metadata, '\u0000', '\ufffd')::jsonb
$$;
CREATE INDEX threads_by_metadata ON threads USING gin (comparable(metadata) jsonb_path_ops)
WHERE metadata IS NOT NULL;
