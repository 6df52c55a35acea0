-- Format 4: each checkpoint has a seal, a checksum over its organisation, thread, graph and id,
-- which detects rows that were moved to another name. The content of a row has its own checksum.

CREATE FUNCTION seal_of(org text, thread text, ns text, id bytea) RETURNS bytea LANGUAGE sql STABLE
AS $$
    SELECT substr(sha256(convert_to(length(org)::text || ':' || org || length(thread)::text || ':'
        || thread || length(ns)::text || ':' || ns, 'UTF8') || id), 1, 8)
$$;

ALTER TABLE checkpoints ADD COLUMN seal bytea;
UPDATE checkpoints SET seal = seal_of(org, thread, ns, id);
ALTER TABLE checkpoints ALTER COLUMN seal SET NOT NULL;

CREATE OR REPLACE FUNCTION put(
    in_org text, in_thread text, in_ns text, in_id bytea, in_of bytea, in_tasks bytea,
    in_body bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock_of(in_org, in_thread));
    INSERT INTO checkpoints (org, thread, ns, id, of, tasks, body, blobs, seal)
        VALUES (in_org, in_thread, in_ns, in_id, in_of, in_tasks, in_body, '{}',
            seal_of(in_org, in_thread, in_ns, in_id))
        ON CONFLICT (org, thread, ns, id) DO UPDATE SET of = excluded.of,
            tasks = excluded.tasks, body = excluded.body, blobs = excluded.blobs,
            seal = excluded.seal;
END
$$;
