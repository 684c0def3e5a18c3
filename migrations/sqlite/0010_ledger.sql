-- The ledger of budgets. Amounts are micro-units of the registry's currency. Programs before this migration do
-- not use these tables. Read the spending with sqlite3:
--   SELECT policy, budget, subject, window_id, settled, exposed FROM ledger_budgets ORDER BY 1, 2, 3, 4;
-- Rows must not be edited: a deleted row grants its budget again.

-- The generation of the ledger, in one row.
CREATE TABLE ledger (
    only_row     INTEGER NOT NULL DEFAULT 1,
    generation   INTEGER NOT NULL,
    since        TEXT    NOT NULL,
    -- The newest report of any process that the database knew at the start of the generation.
    known_until  TEXT    NOT NULL,
    -- False: the ledger grants nothing.
    is_recovered INTEGER NOT NULL CHECK (is_recovered IN (0, 1)),
    -- Counts the transactions. A lower value than before shows a restored backup.
    counter      INTEGER NOT NULL,
    CONSTRAINT ledger_pkey PRIMARY KEY (only_row),
    CONSTRAINT ledger_one_row CHECK (only_row = 1),
    CONSTRAINT ledger_numbers CHECK (generation >= 0 AND counter >= 0)
) STRICT;
INSERT INTO ledger (generation, since, known_until, is_recovered, counter)
VALUES (0, '1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z', 1, 0);

-- The processes of gateways.
CREATE TABLE ledger_processes (
    -- The authenticated principal.
    gateway      TEXT    NOT NULL,
    epoch        TEXT    NOT NULL,
    last_contact TEXT    NOT NULL,
    -- The newest generation with reports of all accounts.
    generation   INTEGER NOT NULL,
    is_ended     INTEGER NOT NULL CHECK (is_ended IN (0, 1)),
    CONSTRAINT ledger_processes_pkey PRIMARY KEY (gateway, epoch),
    CONSTRAINT ledger_processes_epoch_form CHECK (length(epoch) = 32),
    CONSTRAINT ledger_processes_numbers CHECK (generation >= 0)
) STRICT;

-- Each budget in each window. The sums are over all accounts, including deleted ones.
CREATE TABLE ledger_budgets (
    id         INTEGER NOT NULL,
    policy     TEXT    NOT NULL,
    budget     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    window_id  TEXT    NOT NULL,
    -- The end of the window. Null: none.
    ends_at    TEXT,
    exposed    INTEGER NOT NULL,
    settled    INTEGER NOT NULL,
    overshoot  INTEGER NOT NULL,
    reclaimed  INTEGER NOT NULL,
    -- The change of the limit. Negative: lower.
    adjustment INTEGER NOT NULL,
    -- The highest reached threshold of alerts, in ten-thousandths of the limit. 0: none.
    alerted    INTEGER NOT NULL,
    CONSTRAINT ledger_budgets_key UNIQUE (policy, budget, subject, window_id),
    CONSTRAINT ledger_budgets_pkey PRIMARY KEY (id),
    CONSTRAINT ledger_budgets_amounts
        CHECK (settled >= 0 AND exposed >= settled AND overshoot >= 0 AND reclaimed >= 0)
) STRICT;

CREATE INDEX ledger_budgets_ended ON ledger_budgets (ends_at) WHERE ends_at IS NOT NULL;

-- The accounts of gateway processes. The totals only grow.
CREATE TABLE ledger_accounts (
    budget_id INTEGER NOT NULL,
    gateway   TEXT    NOT NULL,
    epoch     TEXT    NOT NULL,
    -- The epoch of the process, which differs after an account was replaced.
    process   TEXT    NOT NULL,
    granted   INTEGER NOT NULL,
    returned  INTEGER NOT NULL,
    settled   INTEGER NOT NULL,
    -- Null: open.
    closed_at TEXT,
    CONSTRAINT ledger_accounts_pkey PRIMARY KEY (budget_id, gateway, epoch),
    CONSTRAINT ledger_accounts_budget FOREIGN KEY (budget_id) REFERENCES ledger_budgets (id)
        ON DELETE CASCADE,
    CONSTRAINT ledger_accounts_epoch_form CHECK (length(epoch) = 32 AND length(process) = 32),
    CONSTRAINT ledger_accounts_amounts
        CHECK (returned >= 0 AND granted >= returned AND settled >= 0)
) STRICT;

CREATE INDEX ledger_accounts_of_process ON ledger_accounts (gateway, process);
CREATE INDEX ledger_accounts_closed ON ledger_accounts (closed_at) WHERE closed_at IS NOT NULL;

-- The thresholds that the spending of budgets has reached, each once in a window.
CREATE TABLE ledger_alerts (
    -- Identifies the alert for receivers.
    id              TEXT    NOT NULL,
    budget_id       INTEGER NOT NULL,
    -- Ten-thousandths of the limit.
    threshold       INTEGER NOT NULL,
    crossed_at      TEXT    NOT NULL,
    -- The spending and the limit at that time.
    settled         INTEGER NOT NULL,
    effective_limit INTEGER NOT NULL,
    -- The deliveries that were tried.
    attempts        INTEGER NOT NULL,
    -- Null: no further attempt.
    next_attempt_at TEXT,
    -- Null: not delivered.
    delivered_at    TEXT,
    CONSTRAINT ledger_alerts_pkey PRIMARY KEY (id),
    CONSTRAINT ledger_alerts_once UNIQUE (budget_id, threshold),
    CONSTRAINT ledger_alerts_budget FOREIGN KEY (budget_id) REFERENCES ledger_budgets (id)
        ON DELETE CASCADE,
    CONSTRAINT ledger_alerts_numbers CHECK (threshold > 0 AND attempts >= 0)
) STRICT;

CREATE INDEX ledger_alerts_due ON ledger_alerts (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- The changes of budgets by operators.
CREATE TABLE ledger_changes (
    number    INTEGER NOT NULL,
    at        TEXT    NOT NULL,
    principal TEXT    NOT NULL,
    policy    TEXT    NOT NULL,
    budget    TEXT    NOT NULL,
    subject   TEXT    NOT NULL,
    window_id TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    -- The gateway of the reclaimed account. Empty for an adjustment.
    gateway   TEXT    NOT NULL,
    -- The new adjustment, or the reclaimed rights.
    amount    INTEGER NOT NULL,
    reason    TEXT    NOT NULL,
    CONSTRAINT ledger_changes_pkey PRIMARY KEY (number),
    CONSTRAINT ledger_changes_kind_known CHECK (kind IN ('adjust', 'reclaim')),
    CONSTRAINT ledger_changes_reclaim_has_gateway CHECK ((kind = 'reclaim') = (gateway <> ''))
) STRICT;

CREATE INDEX ledger_changes_of_budget ON ledger_changes (policy, budget, subject, window_id, number);
