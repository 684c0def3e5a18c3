-- Appends commits in one statement, so in one transaction and one round trip.
--
-- Moving the head takes its row's lock, which holds until the commit: the next append waits, so
-- commits become visible in revision order, and access events in the order of their numbers. The head moves
-- only from the revision that the caller knows, and only if the first commit is chained to it; else no row comes
-- back and nothing is done.
WITH moved AS (
    UPDATE head SET revision = $2, chain = $3
    WHERE revision = $1
      AND sha256(decode(substr(chain, 8), 'hex') || $4) = decode(substr($5, 8), 'hex')
    RETURNING revision
), new_commits AS (
    INSERT INTO commits
        (revision, author, committed_at, message, request_id, changes, chain, canonical)
    SELECT new.* FROM moved, unnest(
        $6::bigint[], $7::text[], $8::timestamptz[], $9::text[], $10::text[], $11::integer[],
        $12::text[], $13::bytea[]
    ) AS new
), new_entities AS (
    INSERT INTO entities
        (kind, name, version, digest, owner, registered_revision, lifecycle, lifecycle_revision,
         lifecycle_reason, lifecycle_notice, document)
    SELECT new.* FROM moved, unnest(
        $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::bigint[],
        $20::text[], $21::bigint[], $22::text[], $23::text[], $24::bytea[]
    ) AS new
), new_changes AS (
    INSERT INTO changes (revision, ordinal, action, kind, name, version, digest, reason, detail)
    SELECT new.revision, new.ordinal, new.action, new.kind, new.name, new.version,
        coalesce(new.digest, (
            SELECT digest FROM entities
            WHERE kind = new.kind AND name = new.name AND version = new.version
        )),
        new.reason, new.detail
    FROM moved, unnest(
        $25::bigint[], $26::integer[], $27::text[], $28::text[], $29::text[], $30::text[],
        $31::text[], $32::text[], $33::text[]
    ) AS new (revision, ordinal, action, kind, name, version, digest, reason, detail)
), new_lifecycles AS (
    UPDATE entities
    SET lifecycle = new.lifecycle, lifecycle_revision = new.revision,
        lifecycle_reason = new.reason, lifecycle_notice = new.notice
    FROM moved, unnest(
        $34::text[], $35::text[], $36::text[], $37::text[], $38::bigint[], $39::text[], $40::text[]
    ) AS new (kind, name, version, lifecycle, revision, reason, notice)
    WHERE entities.kind = new.kind AND entities.name = new.name AND entities.version = new.version
), new_settings AS (
    INSERT INTO setting_changes (revision, ordinal, selector, setting)
    SELECT new.* FROM moved, unnest($41::bigint[], $42::integer[], $43::text[], $44::text[]) AS new
), new_requests AS (
    INSERT INTO requests (author, request_id, revision, committed_at)
    SELECT new.* FROM moved, unnest($45::text[], $46::text[], $47::bigint[], $48::timestamptz[]) AS new
    ON CONFLICT (author, request_id) DO UPDATE
        -- Revision 0 violates a constraint, and so rejects a request that made a commit before and has not
        -- expired after $49 ms. Commits of another registry ($50) keep their requests.
        SET revision = CASE
                WHEN $50 OR requests.committed_at <= excluded.committed_at - $49::bigint * interval '1 ms'
                THEN excluded.revision ELSE 0
            END,
            committed_at = excluded.committed_at
), new_events AS (
    INSERT INTO access_events (at, principal, method, address, event, subject, detail)
    SELECT new.at, new.principal, new.method, new.address, 'committed', new.subject, ''
    FROM moved, unnest(
        $51::timestamptz[], $52::text[], $53::text[], $54::text[], $55::text[]
    ) AS new (at, principal, method, address, subject)
)
SELECT pg_notify('registry_commits', revision::text) FROM moved
