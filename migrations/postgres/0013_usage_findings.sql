-- The number of findings of inspections. Programs before this migration add rows without findings.
ALTER TABLE usage_totals ADD COLUMN findings bigint NOT NULL DEFAULT 0;
