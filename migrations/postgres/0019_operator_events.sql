-- The access trail records changes that operators make on the machine of a server: a replaced checkpoint key, and the
-- start and the end of a recovery of the ledger. Programs before this migration list these events as unknown.

ALTER TABLE access_events DROP CONSTRAINT access_events_event_known;
ALTER TABLE access_events ADD CONSTRAINT access_events_event_known
    CHECK (event IN ('token-created', 'token-revoked', 'committed', 'checkpoint-key-replaced',
                     'ledger-recovery-started', 'ledger-recovery-ended')) NOT VALID;
