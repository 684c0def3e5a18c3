-- The log, and the entities that it registers. Read it with psql:
--   SELECT revision, committed_at, author, message FROM commits ORDER BY revision DESC;
--   SELECT convert_from(document, 'UTF8') FROM entities WHERE kind = 'tool' AND name = 'fetch';

-- Which registry this is. One row.
CREATE TABLE registry (
    id            text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    -- The oldest schema version that a program must know to use this database. Only a migration
    -- that takes something away ("contract") raises it.
    needs_version bigint      NOT NULL DEFAULT 1,
    only_row      boolean     NOT NULL DEFAULT true,
    CONSTRAINT registry_pkey PRIMARY KEY (only_row),
    CONSTRAINT registry_has_one_row CHECK (only_row)
);

-- The last commit. Whoever appends locks this row, so commits become visible in revision order.
CREATE TABLE head (
    revision bigint  NOT NULL,
    chain    text    NOT NULL,
    only_row boolean NOT NULL DEFAULT true,
    CONSTRAINT head_pkey PRIMARY KEY (only_row),
    CONSTRAINT head_has_one_row CHECK (only_row)
);

-- The log. `canonical` is what `chain` covers; the other columns repeat it for reading.
CREATE TABLE commits (
    revision     bigint      NOT NULL,
    author       text        NOT NULL,
    committed_at timestamptz NOT NULL,
    message      text        NOT NULL,
    request_id   text,
    changes      integer     NOT NULL,
    chain        text        NOT NULL,
    canonical    bytea       NOT NULL,
    CONSTRAINT commits_pkey PRIMARY KEY (revision),
    CONSTRAINT commits_revision_positive CHECK (revision > 0),
    CONSTRAINT commits_chain_form CHECK (length(chain) = 71)
);

CREATE INDEX commits_author ON commits (author, revision);

-- The current state of each entity. `document` is the canonical JSON that `digest` covers.
CREATE TABLE entities (
    kind                text   COLLATE "C" NOT NULL,
    name                text   COLLATE "C" NOT NULL,
    version             text   COLLATE "C" NOT NULL,
    digest              text   NOT NULL,
    owner               text   NOT NULL,
    registered_revision bigint NOT NULL,
    lifecycle           text   NOT NULL,
    lifecycle_revision  bigint NOT NULL,
    lifecycle_reason    text,
    document            bytea  NOT NULL,
    CONSTRAINT entities_pkey PRIMARY KEY (kind, name, version),
    CONSTRAINT entities_kind_known CHECK (kind IN ('schema', 'server', 'tool', 'agent')),
    CONSTRAINT entities_digest_form CHECK (length(digest) = 71),
    CONSTRAINT entities_lifecycle_known CHECK (lifecycle IN ('active', 'deprecated', 'retired'))
);

-- What each commit changed, in its order. `digest` is the one of the entity's document: who appends
-- looks it up, so a change of what does not exist is refused, at a fraction of a foreign key's cost.
CREATE TABLE changes (
    revision bigint  NOT NULL,
    ordinal  integer NOT NULL,
    action   text    NOT NULL,
    kind     text    COLLATE "C" NOT NULL,
    name     text    COLLATE "C" NOT NULL,
    version  text    COLLATE "C" NOT NULL,
    digest   text,
    reason   text,
    CONSTRAINT changes_pkey PRIMARY KEY (revision, ordinal),
    CONSTRAINT changes_action_known
        CHECK (action IN ('register', 'deprecate', 'retire', 'restore')),
    CONSTRAINT changes_entity_exists CHECK (digest IS NOT NULL)
);

CREATE INDEX changes_entity ON changes (kind, name, revision, ordinal);

-- The log only grows. This keeps honest people from mistakes; the chain finds the others.
CREATE FUNCTION refuse_edit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the table % only grows: % refused', TG_TABLE_NAME, TG_OP;
END
$$;

CREATE TRIGGER commits_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON commits
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();
CREATE TRIGGER changes_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();
CREATE TRIGGER entities_stay BEFORE DELETE OR TRUNCATE ON entities
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();
