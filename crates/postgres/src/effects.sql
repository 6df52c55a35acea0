-- Format 9: records that commits write for readers outside of their runs. `sequences` has the
-- version of each sequence, which stays when its records are deleted. `effects` has the records,
-- each with the version of its sequence after its write.

CREATE TABLE sequences (
    org text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (org, kind, key)
);

CREATE TABLE effects (
    org text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    at bigint NOT NULL,
    format bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (org, kind, key, version)
);

-- Applies an effect: deletes the records up to a version, then writes a record if there is content.
-- If the sequence does not have the expected version, the transaction is aborted with the number of
-- the effect and the version found.
--
-- The row of the sequence is locked until the transaction ends, so that the versions of a sequence
-- become visible in their order.
CREATE FUNCTION apply_effect(
    in_number bigint, in_org text, in_kind text, in_key text, in_expected bigint,
    in_deletes_to bigint, in_at bigint, in_format bigint, in_content bytea
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before bigint;
BEGIN
    INSERT INTO sequences AS s (org, kind, key, version)
        VALUES (in_org, in_kind, in_key, 0) ON CONFLICT DO NOTHING;
    SELECT s.version INTO before FROM sequences s
        WHERE s.org = in_org AND s.kind = in_kind AND s.key = in_key FOR UPDATE;
    IF before <> in_expected THEN
        PERFORM refuse('WF002', in_number || ' ' || before);
    END IF;
    DELETE FROM effects e WHERE e.org = in_org AND e.kind = in_kind AND e.key = in_key
        AND e.version <= in_deletes_to;
    IF in_content IS NOT NULL THEN
        UPDATE sequences s SET version = before + 1
            WHERE s.org = in_org AND s.kind = in_kind AND s.key = in_key;
        INSERT INTO effects (org, kind, key, version, at, format, content)
            VALUES (in_org, in_kind, in_key, before + 1, in_at, in_format, in_content);
    END IF;
END
$$;
