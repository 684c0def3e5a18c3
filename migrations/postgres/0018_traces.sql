-- The finished calls of traces, as gateways report them. Programs before this migration do not use this table.
CREATE TABLE trace_calls (
    -- The order of the reports.
    id          bigint      GENERATED ALWAYS AS IDENTITY,
    -- The authenticated principal, the id of its process and the number of the call there.
    gateway     text        COLLATE "C" NOT NULL,
    process     text        COLLATE "C" NOT NULL,
    number      bigint      NOT NULL,
    -- The account that started the trace.
    issuer      text        COLLATE "C" NOT NULL,
    subject     text        COLLATE "C" NOT NULL,
    trace_id    text        COLLATE "C" NOT NULL,
    -- By the clock of the gateway.
    started_at  timestamptz NOT NULL,
    reported_at timestamptz NOT NULL,
    -- A JSON object.
    call        text        NOT NULL,
    CONSTRAINT trace_calls_pkey PRIMARY KEY (id),
    CONSTRAINT trace_calls_once UNIQUE (gateway, process, number),
    CONSTRAINT trace_calls_process_form CHECK (length(process) = 32)
);

CREATE INDEX trace_calls_of_trace ON trace_calls (trace_id, started_at, id);
CREATE INDEX trace_calls_of_account ON trace_calls (issuer, subject, id);
CREATE INDEX trace_calls_age ON trace_calls (reported_at);
