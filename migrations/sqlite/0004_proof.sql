-- The key that signs checkpoints is remembered, and REPLACE, which runs no trigger of DELETE, is
-- refused like it. Old programs neither see nor break it.

-- The public key that checkpoints are checked with, NAME+HASH+KEY. Null: no server has started yet.
ALTER TABLE registry ADD COLUMN checkpoint_key TEXT;

-- The settings of one name in the order of the log.
CREATE INDEX setting_changes_selector ON setting_changes (selector, revision, ordinal);

CREATE TRIGGER commits_are_not_replaced BEFORE INSERT ON commits
WHEN EXISTS (SELECT 1 FROM commits WHERE revision = NEW.revision)
BEGIN SELECT RAISE(ABORT, 'the table commits only grows: REPLACE refused'); END;
CREATE TRIGGER changes_are_not_replaced BEFORE INSERT ON changes
WHEN EXISTS (SELECT 1 FROM changes WHERE revision = NEW.revision AND ordinal = NEW.ordinal)
BEGIN SELECT RAISE(ABORT, 'the table changes only grows: REPLACE refused'); END;
CREATE TRIGGER setting_changes_are_not_replaced BEFORE INSERT ON setting_changes
WHEN EXISTS (SELECT 1 FROM setting_changes WHERE revision = NEW.revision AND ordinal = NEW.ordinal)
BEGIN SELECT RAISE(ABORT, 'the table setting_changes only grows: REPLACE refused'); END;
CREATE TRIGGER access_events_are_not_replaced BEFORE INSERT ON access_events
WHEN NEW.number > 0 AND EXISTS (SELECT 1 FROM access_events WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: REPLACE refused'); END;

-- Databases that were new at migration 2 had no row yet when it said this.
UPDATE registry SET needs_version = 2 WHERE needs_version < 2;
