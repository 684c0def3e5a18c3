//! The ledger for the operator of the registry: changes limits, reads figures, and reclaims the rights
//! of lost processes.

use acceptance::access::Authorized;
use history_check::{
    BudgetEvent, Event,
    budget_event::{AccountFigures, Book, BudgetId, Figures},
    log::RECORDER,
};
use registry_core::Amount;
use registry_proto::v1::{self, ledger_service_client::LedgerServiceClient};

use crate::fleet::Operator;

/// Maximum number of budgets on a page.
const PAGE: i32 = 1_000;

impl Operator {
    pub(super) fn note(&self, budget: BudgetEvent) {
        self.history.note(RECORDER, Event::Budget { budget });
    }

    /// Replaces the change of a limit. Returns the exposure afterward; `None`: the outcome is unknown.
    pub(super) async fn adjust(&self, server: usize, book: &Book, adjustment: i64) -> Option<i64> {
        let request = v1::AdjustBudgetRequest {
            key: Some(key(&book.id)),
            window: book.window.clone(),
            adjustment: Amount::from_micros(adjustment).to_string(),
            reason: "the history wants it".to_owned(),
        };
        match self.ledger(server).adjust_budget(request).await {
            Ok(adjusted) => Some(micros(&adjusted.into_inner().budget?.exposed)),
            Err(status) => {
                self.note_failure("adjust", &status);
                None
            }
        }
    }

    /// The exposure of a book at any server.
    pub(super) async fn exposed(&self, book: &Book) -> Option<i64> {
        Some(self.figures(book).await?.exposed)
    }

    /// The figures of a book at any server.
    pub(super) async fn figures(&self, book: &Book) -> Option<Figures> {
        for server in 0..self.servers.len() {
            let request =
                v1::GetBudgetRequest { key: Some(key(&book.id)), window: book.window.clone() };
            if let Ok(shown) = self.ledger(server).get_budget(request).await {
                let v1::GetBudgetResponse { budget, accounts, .. } = shown.into_inner();
                return Some(figures(&budget?, &accounts));
            }
        }
        None
    }

    /// All budgets with spending or grants, also in windows that are over.
    pub(super) async fn books(&self) -> Option<Vec<Book>> {
        for server in 0..self.servers.len() {
            let request = v1::ListBudgetsRequest {
                include_ended_windows: true,
                page_size: PAGE,
                ..Default::default()
            };
            if let Ok(listed) = self.ledger(server).list_budgets(request).await {
                let budgets = listed.into_inner().budgets.into_iter();
                return budgets.map(|budget| Some(book(budget.key?, budget.window))).collect();
            }
        }
        None
    }

    /// Closes the account of a process that is gone. Returns whether it is closed.
    pub(super) async fn reclaim(&self, book: &Book, account: &AccountFigures) -> bool {
        let request = v1::ReclaimBudgetRequest {
            key: Some(key(&book.id)),
            window: book.window.clone(),
            gateway: account.gateway.clone(),
            epoch: account.epoch.clone(),
            reason: "its crash marks are lost".to_owned(),
        };
        let reclaimed = self.ledger(0).reclaim_budget(request).await;
        reclaimed.inspect_err(|status| self.note_failure("reclaim", status)).is_ok()
    }

    fn ledger(&self, server: usize) -> LedgerServiceClient<Authorized> {
        LedgerServiceClient::new(self.channel(server))
    }
}

fn key(id: &BudgetId) -> v1::BudgetKey {
    let BudgetId { policy, budget, subject } = id.clone();
    v1::BudgetKey { policy, budget, subject }
}

fn book(key: v1::BudgetKey, window: String) -> Book {
    let v1::BudgetKey { policy, budget, subject } = key;
    Book { id: BudgetId { policy, budget, subject }, window }
}

fn figures(budget: &v1::Budget, accounts: &[v1::Account]) -> Figures {
    let account = |account: &v1::Account| AccountFigures {
        gateway: account.gateway.clone(),
        epoch: account.epoch.clone(),
        granted: micros(&account.granted),
        returned: micros(&account.returned),
        settled: micros(&account.settled),
        forced: micros(&account.forced),
        is_closed: account.is_closed,
    };
    Figures {
        settled: micros(&budget.settled),
        exposed: micros(&budget.exposed),
        in_doubt: micros(&budget.in_doubt),
        overshoot: micros(&budget.overshoot),
        unexplained: micros(&budget.unexplained),
        reclaimed: micros(&budget.reclaimed),
        accounts: accounts.iter().map(account).collect(),
    }
}

fn micros(amount: &str) -> i64 {
    Amount::parse(amount).expect("the ledger has decimal amounts").as_micros()
}
