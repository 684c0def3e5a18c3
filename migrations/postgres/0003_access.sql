-- API tokens, and who made and ended them. Read it with psql:
--   SELECT id, name, team, roles, expires_at, revoked_at FROM tokens ORDER BY created_at;
--   SELECT at, principal, method, address, event, subject FROM access_events ORDER BY number;

-- What a token may do. Of its text only the digest is kept.
CREATE TABLE tokens (
    id           text        COLLATE "C" NOT NULL,
    digest       text        NOT NULL,
    name         text        NOT NULL,
    team         text        NOT NULL,
    roles        text        NOT NULL,
    -- What it may write, with spaces between; empty: all that its team may.
    scopes       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text        NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    revoked_by   text,
    -- To the hour.
    last_used_at timestamptz,
    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_digest_form CHECK (length(digest) = 71),
    CONSTRAINT tokens_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);

CREATE INDEX tokens_live ON tokens (created_at) WHERE revoked_at IS NULL;

-- What happened to access; the log has what happened to entities.
CREATE TABLE access_events (
    number    bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    at        timestamptz NOT NULL,
    principal text        NOT NULL,
    method    text        NOT NULL,
    address   text        NOT NULL,
    event     text        NOT NULL,
    -- The token's id.
    subject   text        NOT NULL,
    detail    text        NOT NULL,
    CONSTRAINT access_events_pkey PRIMARY KEY (number),
    CONSTRAINT access_events_event_known CHECK (event IN ('token-created', 'token-revoked'))
);

CREATE TRIGGER access_events_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON access_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();
CREATE TRIGGER tokens_stay BEFORE DELETE OR TRUNCATE ON tokens
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();
