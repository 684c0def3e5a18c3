-- The processes of gateways that have not ended. The others are kept for months, so that a late report of a gateway is
-- not charged twice.
CREATE INDEX ledger_processes_running ON ledger_processes (gateway, epoch) WHERE NOT is_ended;
