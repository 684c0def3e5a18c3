-- The kind `policy`. Programs before this migration cannot read it: see the end.

ALTER TABLE entities RENAME TO entities_before;
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
    lifecycle_notice    TEXT,
    CONSTRAINT entities_pkey PRIMARY KEY (kind, name, version),
    CONSTRAINT entities_kind_known
        CHECK (kind IN ('schema', 'server', 'tool', 'agent', 'policy')),
    CONSTRAINT entities_digest_form CHECK (length(digest) = 71),
    CONSTRAINT entities_lifecycle_known CHECK (lifecycle IN ('active', 'deprecated', 'retired'))
) STRICT;
INSERT INTO entities SELECT * FROM entities_before;
DROP TABLE entities_before;

CREATE TRIGGER entities_are_not_deleted BEFORE DELETE ON entities
BEGIN SELECT RAISE(ABORT, 'the table entities only grows: DELETE refused'); END;

UPDATE registry SET needs_version = 9;
