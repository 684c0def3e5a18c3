//! The tasks of operators: list and show budgets, change limits, and reclaim the rights of lost gateways.

use std::time::Duration;

use ledger::{
    BudgetKey, Epoch, Generation, UNREACHABLE_AFTER, Window, WindowId,
    budget::{OfflineLimits, ReclaimError},
};
use registry_core::{Amount, Selector, Timestamp, entity::policy::BudgetScope};

use super::{
    Ledger, earlier,
    rules::{Rule, Rules},
    subjects::UnknownSubject,
};
use crate::{
    access::Principal,
    app::page::{InvalidPage, Page, PageRequest},
    metrics,
    store::{
        self, BookKey, BudgetPage, LedgerFailure, ListedAccount, ListedAlert, ListedBudget,
        ListedChange, NewAccessEvent, Reclaim, ReclaimFailure, Reclaimed,
    },
};

/// Maximum number of accounts of a shown budget.
pub const MAX_ACCOUNTS: usize = 1_000;
/// Maximum number of changes of a shown budget.
const MAX_CHANGES: usize = 100;
/// Maximum number of alerts of a shown budget.
const MAX_ALERTS: usize = 100;
/// Maximum number of shown gateways that a recovery waits for.
const MAX_AWAITED: usize = 100;

/// A failed task of an operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A relay, whose budgets are those of its upstream registry.
    #[error(
        "this server is a relay without budgets and usage of its own; use its upstream: `registryctl --registry {0}`"
    )]
    Relay(String),
    /// No policy in force has the budget, and it has no spending.
    #[error(
        "no policy in force has the budget {0}; `registryctl budget list` shows those with spending"
    )]
    UnknownBudget(BudgetKey),
    /// A subject without spending, which no call has.
    #[error(transparent)]
    UnknownSubject(#[from] UnknownSubject),
    /// The budget has neither spending nor grants in the window.
    #[error("the budget {} has no spending in the window {}", .0.budget, .0.window)]
    Unused(BookKey),
    /// The window can no longer be changed, or not yet.
    #[error("{window} is not an open window of the budget; the current one is {current}")]
    ClosedWindow {
        /// The id of the window.
        window: WindowId,
        /// The current window.
        current: WindowId,
    },
    /// The scopes of the caller do not include the policy.
    #[error(
        "`{name}` may not change the policy {policy}: its scopes are {held}; use a caller with wider scopes"
    )]
    OutsideScope {
        /// The caller.
        name: String,
        /// The name of the policy.
        policy: String,
        /// The scopes of the caller.
        held: String,
    },
    /// The limit does not fit after the change.
    #[error("the limit {limit} cannot be changed by {adjustment}: the largest amount is {max}", max = Amount::MAX)]
    OutOfRange {
        /// The limit of the policy.
        limit: Amount,
        /// The change.
        adjustment: Amount,
    },
    /// The accounts cannot be reclaimed.
    #[error(transparent)]
    Reclaim(#[from] ReclaimError),
    /// An invalid page.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] super::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl From<LedgerFailure> for Error {
    fn from(failure: LedgerFailure) -> Self {
        Self::Ledger(failure.into())
    }
}

impl From<ReclaimFailure> for Error {
    fn from(failure: ReclaimFailure) -> Self {
        match failure {
            ReclaimFailure::Account(error) => error.into(),
            ReclaimFailure::Ledger(failure) => failure.into(),
        }
    }
}

/// Selects budgets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetsWanted {
    /// The name of the policy. Empty: all.
    pub policy: String,
    /// Whether to include windows that are over.
    pub include_ended: bool,
}

/// Selects a budget in a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetSelector {
    /// The budget.
    pub key: BudgetKey,
    /// The window. `None`: the current one.
    pub window: Option<WindowId>,
}

/// A change of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment {
    /// The budget.
    pub selector: BudgetSelector,
    /// Replaces the change of the limit.
    pub adjustment: Amount,
    /// The reason.
    pub reason: String,
}

/// A reclaim of the rights of a lost gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclamation {
    /// The budget.
    pub selector: BudgetSelector,
    /// The principal of the gateway.
    pub gateway: String,
    /// The epoch of the account. `None`: all open accounts of processes that spend nothing more.
    pub epoch: Option<Epoch>,
    /// The reason.
    pub reason: String,
}

/// A budget and its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The stored amounts.
    pub listed: ListedBudget,
    /// The limit with adjustments. `None`: no policy in force has the budget.
    pub limit: Option<Amount>,
    /// Whether the ledger recovers, so that it grants nothing.
    pub is_recovering: bool,
}

impl Budget {
    /// The amount that can be granted.
    pub fn available(&self) -> Amount {
        if self.is_recovering {
            return Amount::ZERO;
        }
        let limit = self.limit.unwrap_or(Amount::ZERO);
        limit.saturating_sub(self.listed.row.exposed).max(Amount::ZERO)
    }
}

/// A budget with its accounts, alerts and changes.
#[derive(Debug)]
pub struct BudgetDetail {
    /// The budget.
    pub budget: Budget,
    /// The first accounts.
    pub accounts: Vec<BudgetAccount>,
    /// The number of further accounts.
    pub more_accounts: u64,
    /// The reached thresholds of alerts.
    pub alerts: Vec<ListedAlert>,
    /// The newest changes by operators.
    pub changes: Vec<ListedChange>,
    /// The number of the generation of the ledger.
    pub generation: u64,
    /// The recovery of the ledger. `None`: it grants.
    pub recovery: Option<Recovery>,
}

/// Budgets with the state of the ledger.
#[derive(Debug)]
pub struct BudgetList {
    /// The budgets.
    pub page: Page<Budget>,
    /// The recovery of the ledger. `None`: it grants.
    pub recovery: Option<Recovery>,
}

/// A recovery of the ledger that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The longest time until it ends.
    pub remaining: Duration,
    /// The first gateways that must report before.
    pub awaited_gateways: Vec<String>,
}

/// An account of a budget.
#[derive(Debug)]
pub struct BudgetAccount {
    /// The totals.
    pub listed: ListedAccount,
    /// Whether the process answers recalls.
    pub is_reachable: bool,
}

impl Ledger {
    /// The currency of all amounts.
    pub fn currency(&self) -> &str {
        &self.config.currency
    }

    /// Lists budgets with spending or grants.
    pub async fn list_budgets(
        &self,
        wanted: BudgetsWanted,
        page: &PageRequest,
    ) -> Result<BudgetList, Error> {
        let after = page.cursor(|cursor| serde_json::from_str::<BookKey>(cursor).ok())?;
        let now = self.clock.now();
        let ends_after = if wanted.include_ended { Timestamp::EPOCH } else { now };
        let unreachable_since = earlier(now, UNREACHABLE_AFTER);
        let listed = BudgetPage {
            after,
            policy: wanted.policy,
            ends_after,
            unreachable_since,
            limit: page.size + 1,
        };
        let listed = self.store.list_budgets(&listed).await?;
        let rules = self.rules.current();
        let generation = self.store.ledger_generation().await?;
        let recovery = self.recovery(&generation, now).await?;
        let budget = |listed| with_limit(&rules, recovery.as_ref(), listed);
        let budgets = listed.into_iter().map(budget).collect();
        let place = |last: &Budget| serde_json::to_string(&last.listed.book).unwrap_or_default();
        Ok(BudgetList { page: page.page(budgets, place), recovery })
    }

    /// Shows a budget with its accounts.
    pub async fn show_budget(&self, selector: &BudgetSelector) -> Result<BudgetDetail, Error> {
        let now = self.clock.now();
        let book = self.select(selector, now)?;
        let generation = self.store.ledger_generation().await?;
        let recovery = self.recovery(&generation, now).await?;
        let budget = self.find(&book, recovery.as_ref(), now).await?;
        let listed = self.store.list_accounts(&book, MAX_ACCOUNTS).await?;
        let count = self.store.count_accounts(&book).await?;
        let since = earlier(now, UNREACHABLE_AFTER);
        let shown = u64::try_from(listed.len()).unwrap_or(u64::MAX);
        let account = |listed: ListedAccount| BudgetAccount {
            is_reachable: listed.last_contact.is_some_and(|at| at > since),
            listed,
        };
        Ok(BudgetDetail {
            budget,
            accounts: listed.into_iter().map(account).collect(),
            more_accounts: count.saturating_sub(shown),
            alerts: self.store.list_alerts(&book, MAX_ALERTS).await?,
            changes: self.store.list_ledger_changes(&book, MAX_CHANGES).await?,
            generation: generation.number,
            recovery,
        })
    }

    /// Changes the limit of a budget in an open window.
    pub async fn adjust_budget(&self, by: &Principal, wanted: Adjustment) -> Result<Budget, Error> {
        let Adjustment { selector, adjustment, reason } = wanted;
        check_scope(by, &selector.key)?;
        let now = self.clock.now();
        let rules = self.rules.current();
        let unknown = || Error::UnknownBudget(selector.key.clone());
        let rule = rules.find(&selector.key).ok_or_else(unknown)?;
        let limit = rule.limit;
        if limit.checked_add(adjustment).is_none() {
            return Err(Error::OutOfRange { limit, adjustment });
        }
        let window = open_window(rule, selector.window.as_ref(), now).ok_or_else(unknown)??;
        let book = BookKey { budget: selector.key, window: window.id };
        self.check_subject(rule.per, &book, now).await?;
        let event = by.access_event(now, reason);
        self.store.adjust_budget(&book, window.end, adjustment, &event).await?;
        note("budget-adjusted", &book, adjustment, &event);
        self.changed(&book, now).await
    }

    /// Rejects a subject that no call has. An adjustment would create a budget without effect.
    async fn check_subject(
        &self,
        per: Option<BudgetScope>,
        book: &BookKey,
        now: Timestamp,
    ) -> Result<(), Error> {
        let unknown = per
            .and_then(|per| UnknownSubject::find(&self.rules.catalog(), per, &book.budget.subject));
        let Some(unknown) = unknown else { return Ok(()) };
        let since = earlier(now, UNREACHABLE_AFTER);
        // Agents and tools with spending can have been removed.
        match self.store.find_budget(book, since).await? {
            Some(_) => Ok(()),
            None => Err(unknown.into()),
        }
    }

    /// Closes accounts of a lost gateway. Returns the budget and the result.
    pub async fn reclaim_budget(
        &self,
        by: &Principal,
        wanted: Reclamation,
    ) -> Result<(Budget, Reclaimed), Error> {
        let Reclamation { selector, gateway, epoch, reason } = wanted;
        check_scope(by, &selector.key)?;
        let now = self.clock.now();
        let book = self.select(&selector, now)?;
        let limits = OfflineLimits {
            offline_for: self.offline_for(),
            longest_call: self.config.budget_longest_call,
        };
        let event = by.access_event(now, reason);
        let reclaim = Reclaim { gateway, epoch, limits };
        let reclaimed = self.store.reclaim_accounts(&book, &reclaim, &event).await?;
        metrics::ledger_excess("reclaimed", reclaimed.amount);
        note("budget-reclaimed", &book, reclaimed.amount, &event);
        Ok((self.changed(&book, now).await?, reclaimed))
    }

    /// The budget in the selected window, which may be over.
    fn select(&self, selector: &BudgetSelector, now: Timestamp) -> Result<BookKey, Error> {
        let BudgetSelector { key, window } = selector;
        let window = if let Some(window) = window {
            window.clone()
        } else {
            let rules = self.rules.current();
            let current = rules.find(key).and_then(|rule| rule.windows.window_at(now).ok());
            current.ok_or_else(|| Error::UnknownBudget(key.clone()))?.id
        };
        Ok(BookKey { budget: key.clone(), window })
    }

    /// The budget after a change by an operator.
    async fn changed(&self, book: &BookKey, now: Timestamp) -> Result<Budget, Error> {
        let generation = self.store.ledger_generation().await?;
        let recovery = self.recovery(&generation, now).await?;
        self.find(book, recovery.as_ref(), now).await
    }

    async fn find(
        &self,
        book: &BookKey,
        recovery: Option<&Recovery>,
        now: Timestamp,
    ) -> Result<Budget, Error> {
        let since = earlier(now, UNREACHABLE_AFTER);
        let listed = self.store.find_budget(book, since).await?;
        let listed = listed.ok_or_else(|| Error::Unused(book.clone()))?;
        Ok(with_limit(&self.rules.current(), recovery, listed))
    }

    /// The recovery of a generation at this time. The database stores its end with the next report only.
    async fn recovery(
        &self,
        generation: &Generation,
        now: Timestamp,
    ) -> Result<Option<Recovery>, Error> {
        if generation.is_recovered {
            return Ok(None);
        }
        let offline_for = self.offline_for();
        let awaited = self.store.awaited_gateways(generation, offline_for, now).await?;
        let remaining = generation.remaining(!awaited.is_empty(), offline_for, now);
        let awaited_gateways = awaited.into_iter().take(MAX_AWAITED).collect();
        Ok((!remaining.is_zero()).then_some(Recovery { remaining, awaited_gateways }))
    }
}

fn with_limit(rules: &Rules, recovery: Option<&Recovery>, listed: ListedBudget) -> Budget {
    let rule = rules.find(&listed.book.budget);
    let limit = rule.map(|rule| listed.row.effective_limit(rule.limit));
    // Rates do not wait for a recovery.
    let is_recovering = recovery.is_some() && !listed.book.budget.is_rate();
    Budget { listed, limit, is_recovering }
}

/// The current or next window. `None`: the time has no window.
fn open_window(
    rule: &Rule,
    id: Option<&WindowId>,
    now: Timestamp,
) -> Option<Result<Window, Error>> {
    let open = rule.windows.open_at(now).ok()?;
    let closed = || Error::ClosedWindow {
        window: id.unwrap_or(&open.current.id).clone(),
        current: open.current.id.clone(),
    };
    Some(open.find(id).cloned().ok_or_else(closed))
}

/// A governor with scopes changes the budgets of their policies only.
fn check_scope(by: &Principal, key: &BudgetKey) -> Result<(), Error> {
    if by.scopes.selectors().is_empty() {
        return Ok(());
    }
    let policy: Result<Selector, _> = format!("policy/{}", key.policy).parse();
    let is_included = policy
        .is_ok_and(|policy| by.scopes.selectors().iter().any(|scope| scope.includes(&policy)));
    if is_included {
        return Ok(());
    }
    let (name, held) = (by.name.to_string(), by.scopes.to_string());
    Err(Error::OutsideScope { name, policy: key.policy.to_string(), held })
}

fn note(name: &'static str, book: &BookKey, amount: Amount, event: &NewAccessEvent) {
    let NewAccessEvent { principal, detail: reason, .. } = event;
    let BookKey { budget, window } = book;
    tracing::info!(target: "audit", event = name, %budget, %window, %amount, principal, reason);
}
