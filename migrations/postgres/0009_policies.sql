-- The kind `policy`. Programs before this migration cannot read it: see the end.

ALTER TABLE entities DROP CONSTRAINT entities_kind_known;
-- All rows satisfy the narrower constraint of before, so they need no validation.
ALTER TABLE entities ADD CONSTRAINT entities_kind_known
    CHECK (kind IN ('schema', 'server', 'tool', 'agent', 'policy')) NOT VALID;

UPDATE registry SET needs_version = 9;
