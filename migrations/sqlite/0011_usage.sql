-- The usage of tools, as gateways report it. Programs before this migration do not use these tables. Read it with
-- sqlite3:
--   SELECT datetime(minute * 60, 'unixepoch'), gateway, agent, tool, verdict, calls, cost FROM usage_totals ORDER BY 1;

-- The last report of each gateway process.
CREATE TABLE usage_reports (
    -- The authenticated principal.
    gateway     TEXT    NOT NULL,
    process     TEXT    NOT NULL,
    -- The number of the report. Reports with lower numbers are ignored.
    sequence    INTEGER NOT NULL,
    reported_at TEXT    NOT NULL,
    CONSTRAINT usage_reports_pkey PRIMARY KEY (gateway, process),
    CONSTRAINT usage_reports_process_form CHECK (length(process) = 32),
    CONSTRAINT usage_reports_numbers CHECK (sequence > 0)
) STRICT;

-- Sums over calls.
CREATE TABLE usage_totals (
    -- The number of minutes from 1970-01-01T00:00:00Z to the start of the minute, or of the hour for older usage.
    minute          INTEGER NOT NULL,
    gateway         TEXT    NOT NULL,
    agent           TEXT    NOT NULL,
    team            TEXT    NOT NULL,
    principal       TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    verdict         TEXT    NOT NULL,
    calls           INTEGER NOT NULL,
    -- Micro-units of the registry's currency. Negative: corrections of earlier costs.
    cost            INTEGER NOT NULL,
    duration_micros INTEGER NOT NULL,
    request_bytes   INTEGER NOT NULL,
    response_bytes  INTEGER NOT NULL,
    CONSTRAINT usage_totals_pkey PRIMARY KEY (minute, gateway, agent, team, principal, tool, verdict),
    CONSTRAINT usage_totals_sums
        CHECK (calls >= 0 AND duration_micros >= 0 AND request_bytes >= 0 AND response_bytes >= 0)
) STRICT, WITHOUT ROWID;

-- The rows that become a part of their hour.
CREATE INDEX usage_totals_minutes ON usage_totals (minute) WHERE minute % 60 <> 0;
