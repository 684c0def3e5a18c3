-- Details of lifecycle changes, owners of entities, and settings of names.
-- Old programs neither see nor break it, but they would drop what they do not know: see the end.

-- A JSON object: what to use instead (`replacement`), until when (`sunsetDate`), why dependents were ignored (`forceReason`).
ALTER TABLE entities ADD COLUMN lifecycle_notice text;
-- The same of one change; of a registration, the `owner` where that is not the author.
ALTER TABLE changes ADD COLUMN detail text;

-- What commits set about names, namespaces and everything, in their order.
CREATE TABLE setting_changes (
    revision bigint  NOT NULL,
    ordinal  integer NOT NULL,
    selector text    COLLATE "C" NOT NULL,
    setting  text    NOT NULL,
    CONSTRAINT setting_changes_pkey PRIMARY KEY (revision, ordinal)
);

CREATE TRIGGER setting_changes_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON setting_changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();

-- The past is asked for by time, and for what was deprecated or retired then.
CREATE INDEX commits_time ON commits (committed_at, revision);
CREATE INDEX changes_of_lifecycle ON changes (revision, ordinal) WHERE action <> 'register';

-- A program before this migration would not fold settings, and so serve another catalog.
UPDATE registry SET needs_version = 2;
