-- Who follows and who has followed, as each server notes it a little later. Read it with sqlite3:
--   SELECT gateway, principal, server, applied, gone_at FROM gateways ORDER BY gateway;
--   SELECT server, seen_at FROM gateway_servers;
-- Nothing else depends on it: rows may be deleted.

CREATE TABLE gateways (
    -- What it calls itself, and as whom it is authenticated.
    gateway          TEXT    NOT NULL,
    principal        TEXT    NOT NULL,
    version          TEXT    NOT NULL,
    address          TEXT    NOT NULL,
    -- What it follows; *: everything.
    scope            TEXT    NOT NULL,
    -- Which server it follows, or followed.
    server           TEXT    NOT NULL,
    connected_at     TEXT    NOT NULL,
    -- When this row was written.
    noted_at         TEXT    NOT NULL,
    -- Null: it follows, if its server lives.
    gone_at          TEXT,
    sent             INTEGER NOT NULL,
    applied          INTEGER NOT NULL,
    persisted        INTEGER NOT NULL,
    cache            TEXT    NOT NULL,
    cache_problem    TEXT    NOT NULL,
    -- Its last refusal, if it applied nothing since; the findings as a JSON array.
    nack_revision    INTEGER,
    nack_message     TEXT,
    nack_diagnostics TEXT,
    CONSTRAINT gateways_pkey PRIMARY KEY (gateway, principal),
    CONSTRAINT gateways_cache_known CHECK (cache IN ('unknown', 'ok', 'failing', 'none')),
    CONSTRAINT gateways_nack_whole CHECK
        ((nack_revision IS NULL) = (nack_message IS NULL)
         AND (nack_revision IS NULL) = (nack_diagnostics IS NULL))
) STRICT;

CREATE INDEX gateways_of_server ON gateways (server) WHERE gone_at IS NULL;
CREATE INDEX gateways_gone ON gateways (gone_at, gateway, principal) WHERE gone_at IS NOT NULL;

-- Which servers live. One that has not been heard of for a while has lost its followers.
CREATE TABLE gateway_servers (
    server           TEXT    NOT NULL,
    seen_at          TEXT    NOT NULL,
    CONSTRAINT gateway_servers_pkey PRIMARY KEY (server)
) STRICT;
