-- The key that signs checkpoints is remembered. Old programs neither see nor break it.

-- The public key that checkpoints are checked with, NAME+HASH+KEY. Null: no server has started yet.
ALTER TABLE registry ADD COLUMN checkpoint_key text;

-- The settings of one name in the order of the log. There are few of them.
CREATE INDEX setting_changes_selector ON setting_changes (selector, revision, ordinal);

-- Databases that were new at migration 2 had no row yet when it said this.
UPDATE registry SET needs_version = 2 WHERE needs_version < 2;
