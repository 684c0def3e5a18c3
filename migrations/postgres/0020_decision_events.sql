-- The access trail records decisions about approvals, and changes of budgets by operators, whose own rows expire.
-- Programs before this migration list these events as unknown.

ALTER TABLE access_events DROP CONSTRAINT access_events_event_known;
ALTER TABLE access_events ADD CONSTRAINT access_events_event_known
    CHECK (event IN ('token-created', 'token-revoked', 'committed', 'checkpoint-key-replaced',
                     'ledger-recovery-started', 'ledger-recovery-ended', 'approval-approved', 'approval-denied',
                     'approval-grant-revoked', 'budget-adjusted', 'budget-reclaimed')) NOT VALID;
