-- Approvals of calls. Programs before this migration do not use these tables. Rows must not be edited: a deleted row
-- or round allows a call again, or makes an approval unusable.

-- One row, whose lock orders the creation of requests.
CREATE TABLE approval_lock (
    only_row boolean NOT NULL DEFAULT true,
    CONSTRAINT approval_lock_pkey PRIMARY KEY (only_row),
    CONSTRAINT approval_lock_one_row CHECK (only_row)
);
INSERT INTO approval_lock DEFAULT VALUES;

-- Requests for the approval of one call.
CREATE TABLE approval_requests (
    id        text COLLATE "C" NOT NULL,
    -- The digest of the account of the caller.
    caller    text COLLATE "C" NOT NULL,
    -- The digest of the call.
    call_key  text COLLATE "C" NOT NULL,
    state     text COLLATE "C" NOT NULL,
    -- The number of the last step.
    revision  bigint NOT NULL,
    -- The generation of the ledger. An older one ends the request: the database may lack transactions.
    generation bigint NOT NULL,
    -- The next time limit. Null: none.
    due_at    timestamptz,
    -- Null: not ended.
    ended_at  timestamptz,
    -- The time from which on the row may be deleted for a new one. Null: not ended.
    room_at   timestamptz,
    -- The request as JSON, without the preview.
    document  text    NOT NULL,
    -- Null: erased.
    preview   text,
    CONSTRAINT approval_requests_pkey PRIMARY KEY (id),
    CONSTRAINT approval_requests_id_form CHECK (length(id) = 32),
    CONSTRAINT approval_requests_numbers CHECK (revision > 0 AND generation >= 0),
    CONSTRAINT approval_requests_state_known CHECK (state IN (
        'pending', 'approved', 'consumed', 'succeeded', 'failed', 'unknown', 'denied', 'expired', 'cancelled',
        'superseded', 'invalid'))
);

-- A call has one request that waits or can be used.
CREATE UNIQUE INDEX approval_requests_open ON approval_requests (call_key) WHERE state IN ('pending', 'approved');
CREATE INDEX approval_requests_of_caller ON approval_requests (caller);
CREATE INDEX approval_requests_due ON approval_requests (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX approval_requests_room ON approval_requests (room_at);
CREATE INDEX approval_requests_ended ON approval_requests (ended_at) WHERE ended_at IS NOT NULL;

-- The consumed rounds. The primary key ensures that one call consumes a round.
CREATE TABLE approval_rounds (
    request text COLLATE "C" NOT NULL,
    round   bigint NOT NULL,
    gateway text COLLATE "C" NOT NULL,
    attempt text COLLATE "C" NOT NULL,
    CONSTRAINT approval_rounds_pkey PRIMARY KEY (request, round),
    CONSTRAINT approval_rounds_request FOREIGN KEY (request) REFERENCES approval_requests (id) ON DELETE CASCADE
);

-- The steps of the stored requests, as JSON.
CREATE TABLE approval_steps (
    request  text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    document text    NOT NULL,
    CONSTRAINT approval_steps_pkey PRIMARY KEY (request, revision),
    CONSTRAINT approval_steps_request FOREIGN KEY (request) REFERENCES approval_requests (id) ON DELETE CASCADE
);

-- Approvals of later calls.
CREATE TABLE approval_grants (
    -- The request that created the grant. It can be deleted before the grant ends.
    origin   text COLLATE "C" NOT NULL,
    caller   text COLLATE "C" NOT NULL,
    -- The generation of the ledger. The grant counts in this one only.
    generation bigint NOT NULL,
    ends_at  timestamptz NOT NULL,
    document text NOT NULL,
    CONSTRAINT approval_grants_pkey PRIMARY KEY (origin)
);

CREATE INDEX approval_grants_of_caller ON approval_grants (caller);
CREATE INDEX approval_grants_ended ON approval_grants (ends_at);

-- The fingerprint of the key file, which all servers share. It has one row after the first start.
CREATE TABLE approval_key (
    only_row    boolean NOT NULL DEFAULT true,
    fingerprint text    NOT NULL,
    CONSTRAINT approval_key_pkey PRIMARY KEY (only_row),
    CONSTRAINT approval_key_one_row CHECK (only_row)
);
