-- Details of lifecycle changes, owners of entities, and settings of names.
-- Old programs neither see nor break it, but they would drop what they do not know: see the end.

-- A JSON object: what to use instead (`replacement`), until when (`sunsetDate`), why dependents were ignored (`forceReason`).
ALTER TABLE entities ADD COLUMN lifecycle_notice TEXT;
-- The same of one change; of a registration, the `owner` where that is not the author.
ALTER TABLE changes ADD COLUMN detail TEXT;

-- What commits set about names, namespaces and everything, in their order.
CREATE TABLE setting_changes (
    revision INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL,
    selector TEXT    NOT NULL,
    setting  TEXT    NOT NULL,
    CONSTRAINT setting_changes_pkey PRIMARY KEY (revision, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER setting_changes_are_not_updated BEFORE UPDATE ON setting_changes
BEGIN SELECT RAISE(ABORT, 'the table setting_changes only grows: UPDATE refused'); END;
CREATE TRIGGER setting_changes_are_not_deleted BEFORE DELETE ON setting_changes
BEGIN SELECT RAISE(ABORT, 'the table setting_changes only grows: DELETE refused'); END;

-- The past is asked for by time, and for what was deprecated or retired then.
CREATE INDEX commits_time ON commits (committed_at, revision);
CREATE INDEX changes_of_lifecycle ON changes (revision, ordinal) WHERE action <> 'register';

-- A program before this migration would not fold settings, and so serve another catalog.
UPDATE registry SET needs_version = 2;
