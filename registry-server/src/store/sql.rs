//! Queries that run on both databases.

/// Head of the log.
pub(super) const HEAD: &str = "SELECT revision, chain FROM head";

/// Chain hash of a commit: $1 revision.
pub(super) const CHAIN: &str = "SELECT chain FROM commits WHERE revision = $1";

/// Number of registered entities according to the log.
pub(super) const REGISTRATIONS: &str = "SELECT count(*) FROM changes WHERE action = 'register'";

/// A page of the current state: $1 kind, $2 name, $3 version of the previous entity, $4 limit.
pub(super) const ENTITIES: &str = "
    SELECT e.kind, e.name, e.version, e.digest, e.owner, e.registered_revision,
           c.committed_at AS registered_at, e.lifecycle, e.lifecycle_revision, e.lifecycle_reason,
           e.lifecycle_notice, l.committed_at AS lifecycle_at, e.document
    FROM entities e JOIN commits c ON c.revision = e.registered_revision
        JOIN commits l ON l.revision = e.lifecycle_revision
    WHERE (e.kind, e.name, e.version) > ($1, $2, $3)
    ORDER BY e.kind, e.name, e.version
    LIMIT $4";

/// A page of commits that ends early if they have many changes: $1 after, $2 before, $3 limit, $4 number of
/// changes that ends the page, $5 author.
macro_rules! page {
    ($order:literal, $filter:literal) => {
        concat!(
            "SELECT c.revision, c.chain, p.chain AS previous, c.canonical
             FROM (SELECT revision, sum(changes) OVER (ORDER BY revision ",
            $order,
            ") - changes AS sooner
                   FROM (SELECT revision, changes FROM commits
                         WHERE revision > $1 AND revision < $2 ",
            $filter,
            " ORDER BY revision ",
            $order,
            " LIMIT $3) AS page) AS sized
             JOIN commits c ON c.revision = sized.revision
             LEFT JOIN commits p ON p.revision = c.revision - 1
             WHERE sized.sooner < $4
             ORDER BY c.revision ",
            $order
        )
    };
}

/// Adds filters: $5 author or null, $6 kind or null, $7 name or null, $8 version or null, $9 and $10 range of
/// selectors or null.
macro_rules! filtered_commits {
    ($order:literal) => {
        page!(
            $order,
            "AND (CAST($5 AS text) IS NULL OR author = $5) AND revision IN
             (SELECT revision FROM changes
              WHERE kind = $6 AND (CAST($7 AS text) IS NULL OR name = $7)
                AND (CAST($8 AS text) IS NULL OR version = $8)
              UNION SELECT revision FROM setting_changes 
              WHERE selector >= $9 AND selector <= $10)"
        )
    };
}

pub(super) const OLDEST_FILTERED_COMMITS: &str = filtered_commits!("ASC");
pub(super) const NEWEST_FILTERED_COMMITS: &str = filtered_commits!("DESC");
pub(super) const OLDEST_COMMITS: &str = page!("ASC", "");
pub(super) const NEWEST_COMMITS: &str = page!("DESC", "");
pub(super) const OLDEST_COMMITS_BY: &str = page!("ASC", "AND author = $5");
pub(super) const NEWEST_COMMITS_BY: &str = page!("DESC", "AND author = $5");

/// Registered documents in the order of their changes: $1 after, $2 up to.
pub(super) const DOCUMENTS: &str = "
    SELECT ch.revision, kind, name, version, e.digest, e.document
    FROM changes ch JOIN entities e USING (kind, name, version)
    WHERE ch.revision > $1 AND ch.revision <= $2 AND ch.action = 'register'
    ORDER BY ch.revision, ch.ordinal";

/// Last commit of a request: $1 author, $2 request id, $3 start of the time before it expires.
pub(super) const REQUEST: &str = "
    SELECT c.revision, c.author, c.committed_at, c.message, c.request_id, c.changes, c.chain
    FROM requests r JOIN commits c ON c.revision = r.revision
    WHERE r.author = $1 AND r.request_id = $2 AND r.committed_at > $3";

/// Deletes expired requests: $1 time.
pub(super) const DELETE_EXPIRED_REQUESTS: &str = "DELETE FROM requests WHERE committed_at <= $1";

/// Changes with the data of their commits, in the order of the log.
macro_rules! events {
    ($filter:literal, $limit:literal) => {
        concat!(
            "SELECT ch.revision, ch.ordinal, ch.action, ch.kind, ch.name, ch.version, ch.digest,
                    ch.reason, ch.detail, c.author, c.committed_at, c.message
             FROM changes ch JOIN commits c ON c.revision = ch.revision
             WHERE ",
            $filter,
            " ORDER BY ch.revision, ch.ordinal",
            $limit
        )
    };
}

/// Changes of a name: $1 kind, $2 name, $3 version or null, $4 revision and $5 ordinal of the previous change,
/// $6 last revision, $7 limit.
pub(super) const HISTORY: &str = events!(
    "ch.kind = $1 AND ch.name = $2 AND (CAST($3 AS text) IS NULL OR ch.version = $3)
       AND (ch.revision, ch.ordinal) > ($4, $5) AND ch.revision <= $6",
    " LIMIT $7"
);

/// Settings of a name, ordered after the changes of their commits: $1 selector, $2 revision and $3 ordinal of the
/// previous event, $4 last revision, $5 limit.
pub(super) const SETTING_HISTORY: &str = "
    SELECT s.revision, s.ordinal + c.changes AS ordinal, s.selector, s.setting, c.author,
           c.committed_at, c.message
    FROM setting_changes s JOIN commits c ON c.revision = s.revision
    WHERE s.selector = $1 AND (s.revision, s.ordinal + c.changes) > ($2, $3)
      AND s.revision <= $4
    ORDER BY s.revision, s.ordinal LIMIT $5";

/// Lifecycle changes up to a revision, in order: $1 revision.
pub(super) const LIFECYCLES: &str = events!("ch.action <> 'register' AND ch.revision <= $1", "");

/// A page of commits with all columns that ends early if they have many changes: $1 after, $2 limit, $3 number of
/// changes that ends the page. Numbers are cast, because SQLite may contain values of any type.
pub(super) const COMMITS: &str = "
    SELECT c.revision, author, committed_at, message, request_id,
           CAST(changes AS bigint) AS changes, chain, canonical
    FROM (SELECT revision, sum(many) OVER (ORDER BY revision) - many AS sooner
          FROM (SELECT revision,
                       CASE WHEN changes BETWEEN 0 AND 1000000 THEN changes ELSE 0 END AS many
                FROM commits WHERE revision > $1 ORDER BY revision LIMIT $2) AS page) AS sized
         JOIN commits c ON c.revision = sized.revision
    WHERE sized.sooner < $3
    ORDER BY c.revision";

/// Rows of changes: $1 after, $2 up to.
pub(super) const CHANGES: &str = "
    SELECT revision, CAST(ordinal AS bigint) AS ordinal, action, kind, name, version, digest,
           reason, detail
    FROM changes WHERE revision > $1 AND revision <= $2
    ORDER BY revision, changes.ordinal";

/// Rows of settings: $1 after, $2 up to.
pub(super) const SETS: &str = "
    SELECT revision, CAST(ordinal AS bigint) AS ordinal, selector, setting
    FROM setting_changes WHERE revision > $1 AND revision <= $2
    ORDER BY revision, setting_changes.ordinal";

/// A page of entities in stored form: $1 kind, $2 name, $3 version of the previous one, $4 limit.
pub(super) const STATES: &str = "
    SELECT kind, name, version, digest, owner, registered_revision, lifecycle, lifecycle_revision,
           lifecycle_reason, lifecycle_notice, document
    FROM entities
    WHERE (kind, name, version) > (CAST($1 AS text), CAST($2 AS text), CAST($3 AS text))
    ORDER BY kind, name, version LIMIT $4";

/// Rows without a commit: $1 limit.
macro_rules! strays {
    ($table:literal) => {
        concat!(
            "SELECT revision, count(*) AS strays FROM ",
            $table,
            " AS t WHERE NOT EXISTS (SELECT 1 FROM commits WHERE revision = t.revision)
             GROUP BY revision ORDER BY revision LIMIT $1"
        )
    };
}

pub(super) const STRAY_CHANGES: &str = strays!("changes");
pub(super) const STRAY_SETS: &str = strays!("setting_changes");

/// Identity of the registry, required schema version and public key.
pub(super) const REGISTRY: &str = "SELECT id, needs_version, checkpoint_key FROM registry";

/// Row counts of tables with a single row.
pub(super) const HEADS: &str = "SELECT count(*) FROM head";
pub(super) const REGISTRIES: &str = "SELECT count(*) FROM registry";

/// Last applied migration.
pub(super) const MIGRATED: &str = "SELECT max(version) FROM _sqlx_migrations";

/// Public key of the checkpoints, if stored.
pub(super) const CHECKPOINT_KEY: &str = "SELECT checkpoint_key FROM registry";

/// Stores the first public key: $1 key.
pub(super) const FIRST_CHECKPOINT_KEY: &str =
    "UPDATE registry SET checkpoint_key = $1 WHERE checkpoint_key IS NULL";

/// Replaces the public key, also of a relay: $1 key.
pub(super) const NEW_CHECKPOINT_KEY: &str =
    "UPDATE registry SET checkpoint_key = $1, attestation = NULL";

/// Removes the fingerprint of the key of approvals.
pub(super) const FORGET_APPROVAL_KEY: &str = "DELETE FROM approval_key";

/// Ends all standing grants.
pub(super) const END_GRANTS: &str = "DELETE FROM approval_grants";

/// Settings of commits in order: $1 after, $2 up to.
pub(super) const SETTINGS: &str = "
    SELECT revision, selector, setting FROM setting_changes
    WHERE revision > $1 AND revision <= $2
    ORDER BY revision, ordinal";

/// Inserts a setting: $1 revision, $2 ordinal, $3 selector, $4 setting.
pub(super) const INSERT_SETTING: &str =
    "INSERT INTO setting_changes (revision, ordinal, selector, setting) VALUES ($1, $2, $3, $4)";

/// Last revision at or before a time: $1 time.
pub(super) const REVISION_AT: &str = "
    SELECT revision, chain FROM commits WHERE committed_at <= $1
    ORDER BY committed_at DESC, revision DESC LIMIT 1";

/// Id of the registry.
pub(super) const IDENTITY: &str = "SELECT id FROM registry";

/// Minimum schema version of a program.
pub(super) const NEEDS_VERSION: &str = "SELECT needs_version FROM registry";

/// Creates the identity of a registry: $1 id, $2 minimum schema version of a program.
pub(super) const CREATE_IDENTITY: &str =
    "INSERT INTO registry (id, needs_version) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// Creates the head of a log: $1 chain hash before the first commit.
pub(super) const CREATE_HEAD: &str =
    "INSERT INTO head (revision, chain) VALUES (0, $1) ON CONFLICT DO NOTHING";

/// A page of tokens: $1 limit, $2 creation time and $3 id of the previous token.
macro_rules! tokens {
    ($filter:literal) => {
        concat!(
            "SELECT id, digest, name, team, roles, scopes, created_at, created_by, expires_at,
                    revoked_at, revoked_by, last_used_at
             FROM tokens
             WHERE (created_at < $2 OR (created_at = $2 AND id > $3)) ",
            $filter,
            " ORDER BY created_at DESC, id LIMIT $1"
        )
    };
}

/// Active tokens; $4 is the current time.
pub(super) const ACTIVE_TOKENS: &str =
    tokens!("AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $4)");

/// All tokens.
pub(super) const ALL_TOKENS: &str = tokens!("");

/// One token; $4 is its id.
pub(super) const ONE_TOKEN: &str = tokens!("AND id = $4");

/// Inserts a token, unless $10 tokens are active.
pub(super) const NEW_TOKEN: &str = "
    INSERT INTO tokens
        (id, digest, name, team, roles, scopes, created_at, created_by, expires_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
    WHERE (SELECT count(*) FROM tokens
           WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $7)) < $10";

/// Revokes a token: $1 id, $2 time, $3 principal.
pub(super) const REVOKE_TOKEN: &str =
    "UPDATE tokens SET revoked_at = $2, revoked_by = $3 WHERE id = $1 AND revoked_at IS NULL";

/// Stores the last use of a token: $1 id, $2 time.
pub(super) const TOKEN_USED: &str = "UPDATE tokens SET last_used_at = $2 WHERE id = $1";

/// Inserts an access event.
pub(super) const NEW_ACCESS_EVENT: &str = "
    INSERT INTO access_events (at, principal, method, address, event, subject, detail)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Event name of commits.
pub(super) const COMMITTED: &str = "committed";

/// First access event of a token, if any.
pub(super) const ANY_TOKEN_EVENT: &str = "
    SELECT number FROM access_events
    WHERE event IN ('token-created', 'token-revoked') ORDER BY number LIMIT 1";

/// A page of access events: $1 number of the previous event, $2 limit.
pub(super) const ACCESS_EVENTS: &str = "
    SELECT number, at, principal, method, address, event, subject, detail
    FROM access_events WHERE number > $1 ORDER BY number LIMIT $2";

/// Upserts followers: the part before the rows.
pub(super) const UPSERT_GATEWAYS: &str = "
    INSERT INTO gateways
        (gateway, principal, version, address, scope, server, connected_at, noted_at, gone_at,
         sent, applied, persisted, cache, cache_problem, nack_revision, nack_message,
         nack_diagnostics) ";

/// The part after the rows. Does not change a follower that has moved to another server.
pub(super) const UPSERT_GATEWAYS_CONFLICT: &str = "
    ON CONFLICT (gateway, principal) DO UPDATE SET
        version = excluded.version, address = excluded.address, scope = excluded.scope,
        server = excluded.server, connected_at = excluded.connected_at,
        noted_at = excluded.noted_at, gone_at = excluded.gone_at, sent = excluded.sent,
        applied = excluded.applied, persisted = excluded.persisted, cache = excluded.cache,
        cache_problem = excluded.cache_problem, nack_revision = excluded.nack_revision,
        nack_message = excluded.nack_message, nack_diagnostics = excluded.nack_diagnostics
    WHERE gateways.server = excluded.server
       OR (excluded.gone_at IS NULL AND
           (gateways.gone_at IS NOT NULL OR gateways.connected_at <= excluded.connected_at))";

/// Connected followers of a server: $1 server.
pub(super) const FOLLOWERS_OF: &str =
    "SELECT gateway, principal FROM gateways WHERE server = $1 AND gone_at IS NULL";

/// Marks a follower as disconnected: $1 gateway, $2 principal, $3 server, $4 time.
pub(super) const DISCONNECT_GATEWAY: &str = "
    UPDATE gateways SET gone_at = $4
    WHERE gateway = $1 AND principal = $2 AND server = $3 AND gone_at IS NULL";

/// Stores a heartbeat of a server: $1 server, $2 time.
pub(super) const SERVER_HEARTBEAT: &str = "
    INSERT INTO gateway_servers (server, seen_at) VALUES ($1, $2)
    ON CONFLICT (server) DO UPDATE SET seen_at = excluded.seen_at";

/// Marks followers of dead servers as disconnected: $1 minimum heartbeat time of live servers.
pub(super) const DISCONNECT_GATEWAYS_OF_DEAD_SERVERS: &str = "
    UPDATE gateways SET gone_at = coalesce(
        (SELECT seen_at FROM gateway_servers AS s
         WHERE s.server = gateways.server AND s.seen_at > gateways.noted_at), noted_at)
    WHERE gone_at IS NULL
      AND server NOT IN (SELECT server FROM gateway_servers WHERE seen_at >= $1)";

/// Deletes dead servers: $1 minimum heartbeat time of live servers.
pub(super) const DELETE_DEAD_SERVERS: &str = "DELETE FROM gateway_servers WHERE seen_at < $1";

/// Deletes followers that disconnected long ago, and the oldest ones above the limit: $1 minimum time of
/// disconnection, $2 limit.
pub(super) const DELETE_DISCONNECTED_GATEWAYS: &str = "
    DELETE FROM gateways WHERE gone_at IS NOT NULL AND (gone_at < $1
        OR (gone_at, gateway, principal) <= (
            SELECT gone_at, gateway, principal FROM gateways WHERE gone_at IS NOT NULL
            ORDER BY gone_at DESC, gateway DESC, principal DESC LIMIT 1 OFFSET $2))";

/// A page of followers: $1 gateway and $2 principal of the previous one, $3 prefix of names, $4 revision that
/// they have not applied, $5 connected (1), disconnected (2) or both (0), $6 server whose followers are omitted,
/// $7 minimum heartbeat time of live servers, $8 limit.
pub(super) const GATEWAYS: &str = "
    SELECT gateway, principal, version, address, scope, g.server, connected_at, noted_at, gone_at,
           sent, applied, persisted, cache, cache_problem, nack_revision, nack_message,
           nack_diagnostics, s.seen_at AS server_seen_at
    FROM gateways AS g LEFT JOIN gateway_servers AS s ON s.server = g.server
    WHERE (gateway, principal) > ($1, $2)
      AND substr(gateway, 1, length($3)) = $3
      AND applied < $4
      AND ($5 = 0 OR ($5 = 1) = (gone_at IS NULL AND s.seen_at IS NOT NULL AND s.seen_at >= $7))
      AND NOT (gone_at IS NULL AND g.server = $6)
    ORDER BY gateway, principal LIMIT $8";

/// Times of commits: the part before their revisions.
pub(super) const COMMIT_TIMES: &str =
    "SELECT revision, committed_at FROM commits WHERE revision IN (";
