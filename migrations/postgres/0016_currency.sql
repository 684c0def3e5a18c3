-- The currency of all amounts of the registry. Null: a program before this migration wrote the ledger.
ALTER TABLE ledger ADD COLUMN currency text;
