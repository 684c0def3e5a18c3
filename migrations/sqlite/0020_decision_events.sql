-- The access trail records decisions about approvals, and changes of budgets by operators, whose own rows expire.
-- Programs before this migration list these events as unknown.

ALTER TABLE access_events RENAME TO access_events_before;
CREATE TABLE access_events (
    number    INTEGER NOT NULL,
    at        TEXT    NOT NULL,
    principal TEXT    NOT NULL,
    method    TEXT    NOT NULL,
    address   TEXT    NOT NULL,
    event     TEXT    NOT NULL,
    -- The id of the token, approval request or grant, the revision of the commit, the new key, the generation of the
    -- ledger, or the budget with its window.
    subject   TEXT    NOT NULL,
    detail    TEXT    NOT NULL,
    -- A number is not used again after its event was deleted.
    CONSTRAINT access_events_pkey PRIMARY KEY (number AUTOINCREMENT),
    CONSTRAINT access_events_event_known
        CHECK (event IN ('token-created', 'token-revoked', 'committed', 'checkpoint-key-replaced',
                         'ledger-recovery-started', 'ledger-recovery-ended', 'approval-approved', 'approval-denied',
                     'approval-grant-revoked', 'budget-adjusted', 'budget-reclaimed'))
) STRICT;
INSERT INTO access_events SELECT * FROM access_events_before;
-- The newest events can have been deleted.
DELETE FROM sqlite_sequence WHERE name = 'access_events';
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'access_events', seq FROM sqlite_sequence WHERE name = 'access_events_before';
DROP TABLE access_events_before;

-- Events of commits may be deleted:
--   DELETE FROM access_events WHERE event = 'committed' AND at < '2027-01-01';
CREATE TRIGGER access_events_are_not_updated BEFORE UPDATE ON access_events
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: UPDATE refused'); END;
CREATE TRIGGER access_events_are_not_deleted BEFORE DELETE ON access_events
WHEN OLD.event <> 'committed'
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: DELETE refused'); END;
CREATE TRIGGER access_events_are_not_replaced BEFORE INSERT ON access_events
WHEN NEW.number > 0 AND EXISTS (SELECT 1 FROM access_events WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the table access_events only grows: REPLACE refused'); END;
