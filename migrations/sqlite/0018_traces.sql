-- The finished calls of traces, as gateways report them. Programs before this migration do not use this table.
CREATE TABLE trace_calls (
    -- The order of the reports.
    id          INTEGER PRIMARY KEY,
    -- The authenticated principal, the id of its process and the number of the call there.
    gateway     TEXT    NOT NULL,
    process     TEXT    NOT NULL,
    number      INTEGER NOT NULL,
    -- The account that started the trace.
    issuer      TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    trace_id    TEXT    NOT NULL,
    -- By the clock of the gateway.
    started_at  TEXT    NOT NULL,
    reported_at TEXT    NOT NULL,
    -- A JSON object.
    call        TEXT    NOT NULL,
    CONSTRAINT trace_calls_once UNIQUE (gateway, process, number),
    CONSTRAINT trace_calls_process_form CHECK (length(process) = 32)
) STRICT;

CREATE INDEX trace_calls_of_trace ON trace_calls (trace_id, started_at, id);
CREATE INDEX trace_calls_of_account ON trace_calls (issuer, subject, id);
CREATE INDEX trace_calls_age ON trace_calls (reported_at);
