//! The operator of the registry: registers the policies, changes limits, reads the ledger, and reclaims
//! the rights of lost processes.

use std::{sync::Arc, time::Duration};

use acceptance::access::{Authorized, Bearer};
use history_check::{
    BudgetEvent, Event,
    budget_event::{AccountFigures, Book, BudgetId, Figures},
    log::RECORDER,
};
use registry_core::{Amount, rules::Proposed};
use registry_proto::v1::{
    self, ledger_service_client::LedgerServiceClient,
    registry_service_client::RegistryServiceClient,
};
use tokio::time::{Instant, sleep};
use tonic::{Status, service::interceptor::InterceptedService, transport::Endpoint};

use crate::{history_writer::HistoryWriter, server::Server};

/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit of a commit, also at a server without a fault.
const COMMIT: Duration = Duration::from_secs(20);
/// Time limit until all servers have a commit.
const SPREAD: Duration = Duration::from_secs(2);
/// A transaction with the rules of the previous revision ends within this time.
const IN_FLIGHT: Duration = Duration::from_secs(1);
/// Maximum number of budgets on a page.
const PAGE: i32 = 1_000;

/// A client with the role admin.
#[derive(Debug, Clone)]
pub(super) struct Operator {
    pub(super) servers: Vec<Server>,
    pub(super) token: String,
    pub(super) history: Arc<HistoryWriter>,
}

impl Operator {
    pub(super) fn note(&self, budget: BudgetEvent) {
        self.history.note(RECORDER, Event::Budget { budget });
    }

    /// Registers entities, and returns the revision. Retries until the time is over.
    pub(super) async fn apply(
        &self,
        id: &str,
        entities: &[Proposed],
        limit: Duration,
    ) -> Option<u64> {
        let message = v1::ApplyChangesRequest {
            changes: entities.iter().map(Into::into).collect(),
            request_id: id.to_owned(),
            ..Default::default()
        };
        let deadline = Instant::now() + limit;
        for server in (0..self.servers.len()).cycle() {
            let mut client = RegistryServiceClient::new(self.channel(server));
            match client.apply_changes(message.clone()).await {
                Ok(applied) => return Some(applied.into_inner().revision),
                Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(50)).await,
                Err(status) => {
                    self.note_failure("apply", &status);
                    return None;
                }
            }
        }
        None
    }

    /// Registers the catalog, which must succeed.
    pub(super) async fn set_up(&self, entities: &[Proposed]) {
        let revision = self.apply("catalog", entities, COMMIT).await;
        let revision = revision.expect("the catalog is registered");
        assert!(self.has_spread(revision, COMMIT).await, "a server lacks the catalog");
    }

    /// Waits until all servers apply the policies of a revision.
    pub(super) async fn spread(&self, revision: u64) -> bool {
        let has_spread = self.has_spread(revision, SPREAD).await;
        sleep(IN_FLIGHT).await;
        has_spread
    }

    async fn has_spread(&self, revision: u64, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        for server in 0..self.servers.len() {
            while self.revision(server).await < Some(revision) {
                if Instant::now() > deadline {
                    return false;
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
        true
    }

    async fn revision(&self, server: usize) -> Option<u64> {
        let mut client = RegistryServiceClient::new(self.channel(server));
        let request = v1::ListEntitiesRequest { page_size: 1, ..Default::default() };
        Some(client.list_entities(request).await.ok()?.into_inner().revision)
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

    fn note_failure(&self, what: &str, status: &Status) {
        let fault = format!("{what}: {:?} {}", status.code(), status.message());
        let event = Event::Fault { fault, repeats: false, resends: false };
        self.history.note(RECORDER, event);
    }

    fn ledger(&self, server: usize) -> LedgerServiceClient<Authorized> {
        LedgerServiceClient::new(self.channel(server))
    }

    fn channel(&self, server: usize) -> Authorized {
        let address = &self.servers[server].links.calls.address;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let endpoint = endpoint.timeout(TIMEOUT).connect_timeout(TIMEOUT);
        InterceptedService::new(endpoint.connect_lazy(), Bearer(self.token.clone()))
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
