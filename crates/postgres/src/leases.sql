-- Format 11: workers have the time of the last renewal of their lease instead of that of their start,
-- which nothing read. A lease that ends later than now by more than twice its length was renewed when
-- the clock was ahead, and is not valid.

ALTER TABLE workers RENAME COLUMN started_at TO renewed_at;

CREATE FUNCTION is_valid_lease(renewed_at bigint, expires_at bigint, now bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT expires_at > now
        AND expires_at::numeric - now <= 2 * (expires_at::numeric - renewed_at)
$$;
