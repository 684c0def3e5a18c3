-- API tokens, and who made and ended them. Read it with sqlite3:
--   SELECT id, name, team, roles, expires_at, revoked_at FROM tokens ORDER BY created_at;
--   SELECT at, principal, method, address, event, subject FROM access_events ORDER BY number;

-- What a token may do. Of its text only the digest is kept.
CREATE TABLE tokens (
    id           TEXT NOT NULL,
    digest       TEXT NOT NULL,
    name         TEXT NOT NULL,
    team         TEXT NOT NULL,
    roles        TEXT NOT NULL,
    -- What it may write, with spaces between; empty: all that its team may.
    scopes       TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    expires_at   TEXT,
    revoked_at   TEXT,
    revoked_by   TEXT,
    -- To the hour.
    last_used_at TEXT,
    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_digest_form CHECK (length(digest) = 71),
    CONSTRAINT tokens_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) STRICT;

CREATE INDEX tokens_live ON tokens (created_at) WHERE revoked_at IS NULL;

-- What happened to access; the log has what happened to entities.
CREATE TABLE access_events (
    number    INTEGER NOT NULL,
    at        TEXT    NOT NULL,
    principal TEXT    NOT NULL,
    method    TEXT    NOT NULL,
    address   TEXT    NOT NULL,
    event     TEXT    NOT NULL,
    -- The token's id.
    subject   TEXT    NOT NULL,
    detail    TEXT    NOT NULL,
    CONSTRAINT access_events_pkey PRIMARY KEY (number),
    CONSTRAINT access_events_event_known CHECK (event IN ('token-created', 'token-revoked'))
) STRICT;

CREATE TRIGGER access_events_are_not_updated BEFORE UPDATE ON access_events
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: UPDATE refused'); END;
CREATE TRIGGER access_events_are_not_deleted BEFORE DELETE ON access_events
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: DELETE refused'); END;
CREATE TRIGGER tokens_are_not_deleted BEFORE DELETE ON tokens
BEGIN SELECT RAISE(ABORT, 'the table tokens only grows: DELETE refused'); END;
