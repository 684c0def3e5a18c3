-- Appends commits in one statement, so in one transaction and one round trip.
--
-- Moving the head takes its row's lock, which holds until the commit: the next append waits, so
-- commits become visible in revision order. The head moves only from the revision that the caller
-- knows, only if the first commit is chained to it, and only if no request made a commit before; else no row
-- comes back and nothing is done. Commits of another registry ($51) are taken with the requests that they name.
--
-- Programs before migration 7 find requests by the unique column commits.request_id. It is null where an earlier
-- commit holds the id that is no earlier try of the same request.
WITH moved AS (
    UPDATE head SET revision = $2, chain = $3
    WHERE revision = $1
      AND sha256(decode(substr(chain, 8), 'hex') || $4) = decode(substr($5, 8), 'hex')
      AND ($51 OR NOT EXISTS (
          SELECT 1 FROM requests JOIN unnest($46::text[], $47::text[], $50::timestamptz[])
              AS new (author, request_id, since) USING (author, request_id)
          WHERE committed_at > since
      ))
    RETURNING revision
), new_commits AS (
    INSERT INTO commits
        (revision, author, committed_at, message, request_id, changes, chain, canonical)
    SELECT new.revision, new.author, new.committed_at, new.message,
        CASE WHEN NOT EXISTS (
            SELECT 1 FROM commits WHERE request_id = new.request_id
                AND ($51 OR author <> new.author OR committed_at <= new.since)
        ) THEN new.request_id END,
        new.changes, new.chain, new.canonical
    FROM moved, unnest(
        $6::bigint[], $7::text[], $8::timestamptz[], $9::text[], $10::text[], $11::integer[],
        $12::text[], $13::bytea[], $14::timestamptz[]
    ) AS new (revision, author, committed_at, message, request_id, changes, chain, canonical, since)
), new_entities AS (
    INSERT INTO entities
        (kind, name, version, digest, owner, registered_revision, lifecycle, lifecycle_revision,
         lifecycle_reason, lifecycle_notice, document)
    SELECT new.* FROM moved, unnest(
        $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[],
        $21::text[], $22::bigint[], $23::text[], $24::text[], $25::bytea[]
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
        $26::bigint[], $27::integer[], $28::text[], $29::text[], $30::text[], $31::text[],
        $32::text[], $33::text[], $34::text[]
    ) AS new (revision, ordinal, action, kind, name, version, digest, reason, detail)
), new_lifecycles AS (
    UPDATE entities
    SET lifecycle = new.lifecycle, lifecycle_revision = new.revision,
        lifecycle_reason = new.reason, lifecycle_notice = new.notice
    FROM moved, unnest(
        $35::text[], $36::text[], $37::text[], $38::text[], $39::bigint[], $40::text[], $41::text[]
    ) AS new (kind, name, version, lifecycle, revision, reason, notice)
    WHERE entities.kind = new.kind AND entities.name = new.name AND entities.version = new.version
), new_settings AS (
    INSERT INTO setting_changes (revision, ordinal, selector, setting)
    SELECT new.* FROM moved, unnest($42::bigint[], $43::integer[], $44::text[], $45::text[]) AS new
), new_requests AS (
    INSERT INTO requests (author, request_id, revision, committed_at)
    SELECT new.* FROM moved, unnest($46::text[], $47::text[], $48::bigint[], $49::timestamptz[]) AS new
    ON CONFLICT (author, request_id) DO UPDATE
        SET revision = excluded.revision, committed_at = excluded.committed_at
), new_events AS (
    -- Lines of the trail get their numbers in turn with those about tokens.
    INSERT INTO access_events (at, principal, method, address, event, subject, detail)
    SELECT new.at, new.principal, new.method, new.address, $56, new.subject, ''
    FROM moved, unnest(
        $52::timestamptz[], $53::text[], $54::text[], $55::text[], $57::text[], $58::bigint[]
    ) AS new (at, principal, method, address, subject, turn), LATERAL pg_advisory_xact_lock(new.turn)
)
SELECT pg_notify('registry_commits', revision::text) FROM moved
