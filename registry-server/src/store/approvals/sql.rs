//! Statements of approvals. Those without the name of a database run on both.

/// Locks the creation of requests.
pub(super) const POSTGRES_LOCK_CREATION: &str = "SELECT only_row FROM approval_lock FOR UPDATE";

/// A request: $1 id.
pub(super) const FIND: &str =
    "SELECT document, preview, generation FROM approval_requests WHERE id = $1";

/// Locks a request: $1 id.
pub(super) const POSTGRES_LOCK: &str =
    "SELECT document, preview, generation FROM approval_requests WHERE id = $1 FOR UPDATE";

/// The requests of a caller: $1 caller.
pub(super) const OF_CALLER: &str =
    "SELECT document, preview, generation FROM approval_requests WHERE caller = $1 ORDER BY id";

/// Locks the requests of a caller: $1 caller.
pub(super) const POSTGRES_LOCK_OF_CALLER: &str = "SELECT document, preview, generation FROM approval_requests WHERE caller = $1 ORDER BY id FOR UPDATE";

/// A page of requests without previews: $1 previous id or empty, $2 state or empty, $3 caller or empty, $4 limit.
pub(super) const LIST: &str = "
    SELECT document, CAST(NULL AS text) AS preview, generation FROM approval_requests
    WHERE id > $1 AND ($2 = '' OR state = $2) AND ($3 = '' OR caller = $3)
    ORDER BY id LIMIT $4";

/// Whether a request makes room for one of another caller: $1 now. An unknown outcome stays while its caller has a
/// standing grant of any resource: the columns have no resource.
macro_rules! makes_room {
    () => {
        "(room_at <= $1 OR (state = 'unknown' AND NOT EXISTS (
            SELECT 1 FROM approval_grants
            WHERE approval_grants.caller = approval_requests.caller AND ends_at > $1
              AND approval_grants.generation = (SELECT generation FROM ledger))))"
    };
}

/// The number of requests that make no room: $1 now.
pub(super) const COUNT_KEPT: &str = concat!(
    "SELECT count(*) AS count FROM approval_requests WHERE ",
    makes_room!(),
    " IS NOT TRUE"
);

/// Deletes a request: $1 id.
pub(super) const DELETE: &str = "DELETE FROM approval_requests WHERE id = $1";

/// Deletes the oldest ended requests, those with an unknown outcome last: $1 now, $2 maximum number of requests.
pub(super) const MAKE_ROOM: &str = concat!(
    "DELETE FROM approval_requests WHERE id IN (
        SELECT id FROM approval_requests WHERE ",
    makes_room!(),
    " ORDER BY room_at NULLS LAST, ended_at, id
        LIMIT CASE WHEN (SELECT count(*) FROM approval_requests) > $2
                   THEN (SELECT count(*) FROM approval_requests) - $2 ELSE 0 END)"
);

/// Stores a new request: $1 id, $2 caller, $3 key, $4 state, $5 revision, $6 next limit, $7 end, $8 start of
/// making room, $9 document, $10 preview, $11 generation.
pub(super) const INSERT: &str = "
    INSERT INTO approval_requests
        (id, caller, call_key, state, revision, due_at, ended_at, room_at, document, preview,
         generation)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// Replaces a request: $1 id, $2 state, $3 revision, $4 next limit, $5 end, $6 start of making room,
/// $7 document, $8 generation.
pub(super) const UPDATE: &str = "
    UPDATE approval_requests
    SET state = $2, revision = $3, due_at = $4, ended_at = $5, room_at = $6, document = $7,
        generation = $8
    WHERE id = $1";

/// Stores a round: $1 request, $2 round, $3 gateway, $4 attempt.
pub(super) const INSERT_ROUND: &str =
    "INSERT INTO approval_rounds (request, round, gateway, attempt) VALUES ($1, $2, $3, $4)";

/// Stores a step: $1 request, $2 revision, $3 document.
pub(super) const INSERT_STEP: &str =
    "INSERT INTO approval_steps (request, revision, document) VALUES ($1, $2, $3)";

/// The steps of a request: $1 request.
pub(super) const STEPS: &str =
    "SELECT document FROM approval_steps WHERE request = $1 ORDER BY revision";

/// Stores a standing grant: $1 origin, $2 caller, $3 end, $4 document, $5 generation.
pub(super) const INSERT_GRANT: &str = "
    INSERT INTO approval_grants (origin, caller, ends_at, document, generation)
    VALUES ($1, $2, $3, $4, $5)";

/// The standing grants of a caller in the current generation: $1 caller.
pub(super) const GRANTS_OF_CALLER: &str = "
    SELECT document FROM approval_grants
    WHERE caller = $1 AND generation = (SELECT generation FROM ledger) ORDER BY ends_at, origin";

/// A page of the standing grants in the current generation: $1 previous origin or empty, $2 now, $3 limit.
pub(super) const LIST_GRANTS: &str = "
    SELECT document FROM approval_grants
    WHERE origin > $1 AND ends_at > $2 AND generation = (SELECT generation FROM ledger)
    ORDER BY origin LIMIT $3";

/// A standing grant: $1 origin.
pub(super) const FIND_GRANT: &str = "SELECT document FROM approval_grants WHERE origin = $1";

/// Deletes a standing grant: $1 origin.
pub(super) const DELETE_GRANT: &str =
    "DELETE FROM approval_grants WHERE origin = $1 RETURNING document";

/// Deletes ended standing grants: $1 now.
pub(super) const DELETE_GRANTS: &str = "DELETE FROM approval_grants WHERE ends_at <= $1";

/// The requests whose limit is over, or whose generation has ended: $1 now, $2 maximum number.
pub(super) const DUE: &str = "
    SELECT id FROM approval_requests
    WHERE due_at <= $1
       OR (ended_at IS NULL AND generation < (SELECT generation FROM ledger))
    ORDER BY due_at, id LIMIT $2";

/// Erases the previews of requests that ended until $1.
pub(super) const ERASE_PREVIEWS: &str =
    "UPDATE approval_requests SET preview = NULL WHERE preview IS NOT NULL AND ended_at <= $1";

/// Deletes the requests that ended until $1.
pub(super) const DELETE_ENDED: &str = "DELETE FROM approval_requests WHERE ended_at <= $1";

/// Stores the fingerprint of the first key: $1 fingerprint.
pub(super) const FIRST_KEY: &str =
    "INSERT INTO approval_key (fingerprint) VALUES ($1) ON CONFLICT DO NOTHING";

/// The fingerprint of the key.
pub(super) const KEY: &str = "SELECT fingerprint FROM approval_key";
