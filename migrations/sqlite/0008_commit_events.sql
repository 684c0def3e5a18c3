-- The trail of access says from where each commit came. Commits no longer do: the log is never edited, and
-- addresses of callers must be. Old programs neither see nor break it; they go on sealing addresses in commits.

ALTER TABLE access_events RENAME TO access_events_before;
CREATE TABLE access_events (
    number    INTEGER NOT NULL,
    at        TEXT    NOT NULL,
    principal TEXT    NOT NULL,
    method    TEXT    NOT NULL,
    address   TEXT    NOT NULL,
    event     TEXT    NOT NULL,
    -- The token's id, or the commit's revision.
    subject   TEXT    NOT NULL,
    detail    TEXT    NOT NULL,
    -- A number is never used again, also after its line was deleted.
    CONSTRAINT access_events_pkey PRIMARY KEY (number AUTOINCREMENT),
    CONSTRAINT access_events_event_known
        CHECK (event IN ('token-created', 'token-revoked', 'committed'))
) STRICT;
INSERT INTO access_events SELECT * FROM access_events_before;
DROP TABLE access_events_before;

-- Lines about commits may be deleted:
--   DELETE FROM access_events WHERE event = 'committed' AND at < '2027-01-01';
CREATE TRIGGER access_events_are_not_updated BEFORE UPDATE ON access_events
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: UPDATE refused'); END;
CREATE TRIGGER access_events_are_not_deleted BEFORE DELETE ON access_events
WHEN OLD.event <> 'committed'
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: DELETE refused'); END;
CREATE TRIGGER access_events_are_not_replaced BEFORE INSERT ON access_events
WHEN NEW.number > 0 AND EXISTS (SELECT 1 FROM access_events WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: REPLACE refused'); END;
