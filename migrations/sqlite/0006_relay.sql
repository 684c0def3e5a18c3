-- A relay remembers the registry's signature on the state that it holds, for followers that come while
-- the registry cannot be reached. Old programs neither see nor break it.

-- Revision, milliseconds since 1970-01-01T00:00:00Z, signature in base64. Null: not a relay.
ALTER TABLE registry ADD COLUMN attestation TEXT;
