-- Who follows and who has followed, as each server notes it a little later. Read it with psql:
--   SELECT gateway, principal, server, applied, gone_at FROM gateways ORDER BY gateway;
--   SELECT server, seen_at FROM gateway_servers;
-- Nothing else depends on it: rows may be deleted.

CREATE TABLE gateways (
    -- What it calls itself, and as whom it is authenticated.
    gateway          text        COLLATE "C" NOT NULL,
    principal        text        COLLATE "C" NOT NULL,
    version          text        NOT NULL,
    address          text        NOT NULL,
    -- What it follows; *: everything.
    scope            text        NOT NULL,
    -- Which server it follows, or followed.
    server           text        COLLATE "C" NOT NULL,
    connected_at     timestamptz NOT NULL,
    -- When this row was written.
    noted_at         timestamptz NOT NULL,
    -- Null: it follows, if its server lives.
    gone_at          timestamptz,
    sent             bigint      NOT NULL,
    applied          bigint      NOT NULL,
    persisted        bigint      NOT NULL,
    cache            text        NOT NULL,
    cache_problem    text        NOT NULL,
    -- Its last refusal, if it applied nothing since; the findings as a JSON array.
    nack_revision    bigint,
    nack_message     text,
    nack_diagnostics text,
    CONSTRAINT gateways_pkey PRIMARY KEY (gateway, principal),
    CONSTRAINT gateways_cache_known CHECK (cache IN ('unknown', 'ok', 'failing', 'none')),
    CONSTRAINT gateways_nack_whole CHECK
        ((nack_revision IS NULL) = (nack_message IS NULL)
         AND (nack_revision IS NULL) = (nack_diagnostics IS NULL))
-- Rows are rewritten where they are.
) WITH (fillfactor = 60);

CREATE INDEX gateways_of_server ON gateways (server) WHERE gone_at IS NULL;
CREATE INDEX gateways_gone ON gateways (gone_at, gateway, principal) WHERE gone_at IS NOT NULL;

-- Which servers live. One that has not been heard of for a while has lost its followers.
CREATE TABLE gateway_servers (
    server  text        COLLATE "C" NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT gateway_servers_pkey PRIMARY KEY (server)
);
