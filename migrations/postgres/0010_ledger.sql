-- The ledger of budgets. Amounts are micro-units of the registry's currency. Programs before this migration do
-- not use these tables. Read the spending with psql:
--   SELECT policy, budget, subject, window_id, settled, exposed FROM ledger_budgets ORDER BY 1, 2, 3, 4;
-- Rows must not be edited: a deleted row grants its budget again.

-- The generation of the ledger, in one row.
CREATE TABLE ledger (
    only_row     boolean     NOT NULL DEFAULT true,
    generation   bigint      NOT NULL,
    since        timestamptz NOT NULL,
    -- The newest report of any process that the database knew at the start of the generation.
    known_until  timestamptz NOT NULL,
    -- False: the ledger grants nothing.
    is_recovered boolean     NOT NULL,
    -- The system identifier and the timeline of the database in this generation. Null: not used yet.
    system       text,
    timeline     bigint      NOT NULL,
    CONSTRAINT ledger_pkey PRIMARY KEY (only_row),
    CONSTRAINT ledger_one_row CHECK (only_row),
    CONSTRAINT ledger_numbers CHECK (generation >= 0 AND timeline >= 0)
);
INSERT INTO ledger (generation, since, known_until, is_recovered, timeline)
VALUES (0, '1970-01-01T00:00:00Z', '1970-01-01T00:00:00Z', true, 0);

-- Counts the transactions of the ledger. A lower value than before shows a restored backup.
CREATE SEQUENCE ledger_counter;

-- The processes of gateways.
CREATE TABLE ledger_processes (
    -- The authenticated principal.
    gateway      text        COLLATE "C" NOT NULL,
    epoch        text        COLLATE "C" NOT NULL,
    last_contact timestamptz NOT NULL,
    -- The newest generation with reports of all accounts.
    generation   bigint      NOT NULL,
    is_ended     boolean     NOT NULL,
    CONSTRAINT ledger_processes_pkey PRIMARY KEY (gateway, epoch),
    CONSTRAINT ledger_processes_epoch_form CHECK (length(epoch) = 32),
    CONSTRAINT ledger_processes_numbers CHECK (generation >= 0)
);

-- Each budget in each window. The sums are over all accounts, including deleted ones.
CREATE TABLE ledger_budgets (
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    policy     text        COLLATE "C" NOT NULL,
    budget     text        COLLATE "C" NOT NULL,
    subject    text        COLLATE "C" NOT NULL,
    window_id  text        COLLATE "C" NOT NULL,
    -- The end of the window. Null: none.
    ends_at    timestamptz,
    exposed    bigint      NOT NULL,
    settled    bigint      NOT NULL,
    overshoot  bigint      NOT NULL,
    reclaimed  bigint      NOT NULL,
    -- The change of the limit. Negative: lower.
    adjustment bigint      NOT NULL,
    -- The highest reached threshold of alerts, in ten-thousandths of the limit. 0: none.
    alerted    bigint      NOT NULL,
    CONSTRAINT ledger_budgets_pkey PRIMARY KEY (policy, budget, subject, window_id),
    CONSTRAINT ledger_budgets_id UNIQUE (id),
    CONSTRAINT ledger_budgets_amounts
        CHECK (settled >= 0 AND exposed >= settled AND overshoot >= 0 AND reclaimed >= 0)
-- Rows are updated in place.
) WITH (fillfactor = 60);

CREATE INDEX ledger_budgets_ended ON ledger_budgets (ends_at) WHERE ends_at IS NOT NULL;

-- The accounts of gateway processes. The totals only grow.
CREATE TABLE ledger_accounts (
    budget_id bigint      NOT NULL,
    gateway   text        COLLATE "C" NOT NULL,
    epoch     text        COLLATE "C" NOT NULL,
    -- The epoch of the process, which differs after an account was replaced.
    process   text        COLLATE "C" NOT NULL,
    granted   bigint      NOT NULL,
    returned  bigint      NOT NULL,
    settled   bigint      NOT NULL,
    -- Null: open.
    closed_at timestamptz,
    CONSTRAINT ledger_accounts_pkey PRIMARY KEY (budget_id, gateway, epoch),
    CONSTRAINT ledger_accounts_budget FOREIGN KEY (budget_id) REFERENCES ledger_budgets (id)
        ON DELETE CASCADE,
    CONSTRAINT ledger_accounts_epoch_form CHECK (length(epoch) = 32 AND length(process) = 32),
    CONSTRAINT ledger_accounts_amounts
        CHECK (returned >= 0 AND granted >= returned AND settled >= 0)
) WITH (fillfactor = 60);

CREATE INDEX ledger_accounts_of_process ON ledger_accounts (gateway, process);
CREATE INDEX ledger_accounts_closed ON ledger_accounts (closed_at) WHERE closed_at IS NOT NULL;

-- The thresholds that the spending of budgets has reached, each once in a window.
CREATE TABLE ledger_alerts (
    -- Identifies the alert for receivers.
    id              text        COLLATE "C" NOT NULL,
    budget_id       bigint      NOT NULL,
    -- Ten-thousandths of the limit.
    threshold       bigint      NOT NULL,
    crossed_at      timestamptz NOT NULL,
    -- The spending and the limit at that time.
    settled         bigint      NOT NULL,
    effective_limit bigint      NOT NULL,
    -- The deliveries that were tried.
    attempts        bigint      NOT NULL,
    -- Null: no further attempt.
    next_attempt_at timestamptz,
    -- Null: not delivered.
    delivered_at    timestamptz,
    CONSTRAINT ledger_alerts_pkey PRIMARY KEY (id),
    CONSTRAINT ledger_alerts_once UNIQUE (budget_id, threshold),
    CONSTRAINT ledger_alerts_budget FOREIGN KEY (budget_id) REFERENCES ledger_budgets (id)
        ON DELETE CASCADE,
    CONSTRAINT ledger_alerts_numbers CHECK (threshold > 0 AND attempts >= 0)
);

CREATE INDEX ledger_alerts_due ON ledger_alerts (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- The changes of budgets by operators.
CREATE TABLE ledger_changes (
    number    bigint      GENERATED ALWAYS AS IDENTITY,
    at        timestamptz NOT NULL,
    principal text        NOT NULL,
    policy    text        COLLATE "C" NOT NULL,
    budget    text        COLLATE "C" NOT NULL,
    subject   text        COLLATE "C" NOT NULL,
    window_id text        COLLATE "C" NOT NULL,
    kind      text        NOT NULL,
    -- The gateway of the reclaimed account. Empty for an adjustment.
    gateway   text        NOT NULL,
    -- The new adjustment, or the reclaimed rights.
    amount    bigint      NOT NULL,
    reason    text        NOT NULL,
    CONSTRAINT ledger_changes_pkey PRIMARY KEY (number),
    CONSTRAINT ledger_changes_kind_known CHECK (kind IN ('adjust', 'reclaim')),
    CONSTRAINT ledger_changes_reclaim_has_gateway CHECK ((kind = 'reclaim') = (gateway <> ''))
);

CREATE INDEX ledger_changes_of_budget ON ledger_changes (policy, budget, subject, window_id, number);
