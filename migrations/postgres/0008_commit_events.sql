-- The trail of access says from where each commit came. Commits no longer do: the log is never edited, and
-- addresses of callers must be. Old programs neither see nor break it; they go on sealing addresses in commits.
-- Their `audit verify` reports the triggers below as unknown.

ALTER TABLE access_events DROP CONSTRAINT access_events_event_known;
ALTER TABLE access_events ADD CONSTRAINT access_events_event_known
    CHECK (event IN ('token-created', 'token-revoked', 'committed')) NOT VALID;

-- Lines about commits, whose subject is the revision, may be deleted:
--   DELETE FROM access_events WHERE event = 'committed' AND at < now() - interval '90 days';
DROP TRIGGER access_events_only_grow ON access_events;
CREATE TRIGGER access_events_only_grow BEFORE UPDATE OR TRUNCATE ON access_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit();
CREATE TRIGGER access_events_of_tokens_stay BEFORE DELETE ON access_events
    FOR EACH ROW WHEN (old.event <> 'committed'::text) EXECUTE FUNCTION refuse_edit();
