-- The usage of tools, as gateways report it. Programs before this migration do not use these tables. Read it with psql:
--   SELECT to_timestamp(minute * 60), gateway, agent, tool, verdict, calls, cost FROM usage_totals ORDER BY 1;

-- The last report of each gateway process.
CREATE TABLE usage_reports (
    -- The authenticated principal.
    gateway     text        COLLATE "C" NOT NULL,
    process     text        COLLATE "C" NOT NULL,
    -- The number of the report. Reports with lower numbers are ignored.
    sequence    bigint      NOT NULL,
    reported_at timestamptz NOT NULL,
    CONSTRAINT usage_reports_pkey PRIMARY KEY (gateway, process),
    CONSTRAINT usage_reports_process_form CHECK (length(process) = 32),
    CONSTRAINT usage_reports_numbers CHECK (sequence > 0)
);

-- Sums over calls.
CREATE TABLE usage_totals (
    -- The number of minutes from 1970-01-01T00:00:00Z to the start of the minute, or of the hour for older usage.
    minute          bigint NOT NULL,
    gateway         text   COLLATE "C" NOT NULL,
    agent           text   COLLATE "C" NOT NULL,
    team            text   COLLATE "C" NOT NULL,
    principal       text   COLLATE "C" NOT NULL,
    tool            text   COLLATE "C" NOT NULL,
    verdict         text   COLLATE "C" NOT NULL,
    calls           bigint NOT NULL,
    -- Micro-units of the registry's currency. Negative: corrections of earlier costs.
    cost            bigint NOT NULL,
    duration_micros bigint NOT NULL,
    request_bytes   bigint NOT NULL,
    response_bytes  bigint NOT NULL,
    CONSTRAINT usage_totals_pkey PRIMARY KEY (minute, gateway, agent, team, principal, tool, verdict),
    CONSTRAINT usage_totals_sums
        CHECK (calls >= 0 AND duration_micros >= 0 AND request_bytes >= 0 AND response_bytes >= 0)
-- Rows are updated in place.
) WITH (fillfactor = 80);

-- The rows that become a part of their hour.
CREATE INDEX usage_totals_minutes ON usage_totals (minute) WHERE minute % 60 <> 0;
