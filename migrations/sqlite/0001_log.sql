-- The log, and the entities that it registers. Read it with sqlite3:
--   SELECT revision, committed_at, author, message FROM commits ORDER BY revision DESC;
--   SELECT CAST(document AS TEXT) FROM entities WHERE kind = 'tool' AND name = 'fetch';

-- Which registry this is. One row.
CREATE TABLE registry (
    id            TEXT    NOT NULL,
    created_at    TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- The oldest schema version that a program must know to use this database. Only a migration
    -- that takes something away ("contract") raises it.
    needs_version INTEGER NOT NULL DEFAULT 1,
    only_row      INTEGER NOT NULL DEFAULT 1,
    CONSTRAINT registry_pkey PRIMARY KEY (only_row),
    CONSTRAINT registry_has_one_row CHECK (only_row = 1)
) STRICT, WITHOUT ROWID;

-- The last commit.
CREATE TABLE head (
    revision INTEGER NOT NULL,
    chain    TEXT    NOT NULL,
    only_row INTEGER NOT NULL DEFAULT 1,
    CONSTRAINT head_pkey PRIMARY KEY (only_row),
    CONSTRAINT head_has_one_row CHECK (only_row = 1)
) STRICT, WITHOUT ROWID;

-- The log. `canonical` is what `chain` covers; the other columns repeat it for reading.
CREATE TABLE commits (
    revision     INTEGER NOT NULL,
    author       TEXT    NOT NULL,
    committed_at TEXT    NOT NULL,
    message      TEXT    NOT NULL,
    request_id   TEXT,
    changes      INTEGER NOT NULL,
    chain        TEXT    NOT NULL,
    canonical    BLOB    NOT NULL,
    CONSTRAINT commits_pkey PRIMARY KEY (revision),
    CONSTRAINT commits_revision_positive CHECK (revision > 0),
    CONSTRAINT commits_chain_form CHECK (length(chain) = 71)
) STRICT;

CREATE INDEX commits_author ON commits (author, revision);

-- The current state of each entity. `document` is the canonical JSON that `digest` covers.
CREATE TABLE entities (
    kind                TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    version             TEXT    NOT NULL,
    digest              TEXT    NOT NULL,
    owner               TEXT    NOT NULL,
    registered_revision INTEGER NOT NULL,
    lifecycle           TEXT    NOT NULL,
    lifecycle_revision  INTEGER NOT NULL,
    lifecycle_reason    TEXT,
    document            BLOB    NOT NULL,
    CONSTRAINT entities_pkey PRIMARY KEY (kind, name, version),
    CONSTRAINT entities_kind_known CHECK (kind IN ('schema', 'server', 'tool', 'agent')),
    CONSTRAINT entities_digest_form CHECK (length(digest) = 71),
    CONSTRAINT entities_lifecycle_known CHECK (lifecycle IN ('active', 'deprecated', 'retired'))
) STRICT;

-- What each commit changed, in its order. `digest` is the one of the entity's document: who appends
-- looks it up, so a change of what does not exist is refused, at a fraction of a foreign key's cost.
CREATE TABLE changes (
    revision INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL,
    action   TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    version  TEXT    NOT NULL,
    digest   TEXT,
    reason   TEXT,
    CONSTRAINT changes_pkey PRIMARY KEY (revision, ordinal),
    CONSTRAINT changes_action_known
        CHECK (action IN ('register', 'deprecate', 'retire', 'restore')),
    CONSTRAINT changes_entity_exists CHECK (digest IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX changes_entity ON changes (kind, name, revision, ordinal);

-- The log only grows. This keeps honest people from mistakes; the chain finds the others.
CREATE TRIGGER commits_are_not_updated BEFORE UPDATE ON commits
BEGIN SELECT RAISE(ABORT, 'the table commits only grows: UPDATE refused'); END;
CREATE TRIGGER commits_are_not_deleted BEFORE DELETE ON commits
BEGIN SELECT RAISE(ABORT, 'the table commits only grows: DELETE refused'); END;
CREATE TRIGGER changes_are_not_updated BEFORE UPDATE ON changes
BEGIN SELECT RAISE(ABORT, 'the table changes only grows: UPDATE refused'); END;
CREATE TRIGGER changes_are_not_deleted BEFORE DELETE ON changes
BEGIN SELECT RAISE(ABORT, 'the table changes only grows: DELETE refused'); END;
CREATE TRIGGER entities_are_not_deleted BEFORE DELETE ON entities
BEGIN SELECT RAISE(ABORT, 'the table entities only grows: DELETE refused'); END;
