-- The spending of gateways that nothing explains, such as a forged total. It counts neither as spending nor as exposure.
ALTER TABLE ledger_budgets ADD COLUMN unexplained bigint NOT NULL DEFAULT 0;
ALTER TABLE ledger_accounts ADD COLUMN unexplained bigint NOT NULL DEFAULT 0;

-- The spending that budgets never reject, such as that of compensations. It explains spending without rights.
ALTER TABLE ledger_accounts ADD COLUMN forced bigint NOT NULL DEFAULT 0;

-- The highest allowance that the budget had in the window. It bounds the claims of gateways.
ALTER TABLE ledger_budgets ADD COLUMN peak_allowance bigint NOT NULL DEFAULT 0;
