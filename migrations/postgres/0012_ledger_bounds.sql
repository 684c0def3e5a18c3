-- The processes of gateways that have not ended. The others are kept for months, so that a late report of a gateway is
-- not charged twice.
CREATE INDEX ledger_processes_running ON ledger_processes (gateway, epoch) WHERE NOT is_ended;

-- The highest limit that the budget had in the window, with adjustments. It bounds the claims of gateways.
ALTER TABLE ledger_budgets ADD COLUMN peak_limit bigint NOT NULL DEFAULT 0;

-- The key of the proofs of generations, which gateways present after a restore.
ALTER TABLE ledger ADD COLUMN secret text NOT NULL DEFAULT '';
UPDATE ledger SET secret = replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
