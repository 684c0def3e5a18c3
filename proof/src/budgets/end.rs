//! The end of a history with budgets: each gateway restarts on its disk, the rights of lost processes
//! are reclaimed, and the figures of the ledger are recorded.

use std::time::Duration;

use history_check::{
    BudgetEvent, Event,
    budget_event::{AccountFigures, Book, BookAccount, Figures},
    log::RECORDER,
};
use registry_core::Amount;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::Stage;
use crate::{
    fleet::{FleetGateway, FleetPlan, Marks},
    rng::Rng,
};

/// Time limit until all accounts are closed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Without crash marks, some accounts stay open. They do not change for this time.
const STILL: Duration = Duration::from_secs(3);
/// Time limit until an operator can reclaim the rights of a process that is gone.
const RECLAIM: Duration = Duration::from_secs(25);
const INTERVAL: Duration = Duration::from_millis(200);

/// A budget in one window, and its figures.
struct Ended {
    book: Book,
    figures: Figures,
}

impl Stage {
    pub(super) async fn end(&self, plan: &FleetPlan) {
        let mut restarting = JoinSet::new();
        for gateway in &self.fleet.gateways {
            let gateway = gateway.clone();
            let mut rng = Rng::new(plan.seed, "end");
            restarting.spawn(async move {
                gateway.kill_9(Marks::Kept, &mut rng).await;
                gateway.restart().await;
            });
        }
        restarting.join_all().await;
        for gateway in &self.fleet.gateways {
            gateway.sagas_end().await;
        }
        let has_settled = self.settle(plan).await;
        for gateway in &self.fleet.gateways {
            self.record_charges(gateway);
        }
        if has_settled {
            self.fleet.history.note(RECORDER, Event::Settled {});
        }
        for Ended { book, figures } in self.books().await.unwrap_or_default() {
            self.fleet.operator.note(BudgetEvent::Ended { book, figures });
        }
    }

    /// Records the charges in the audit log of all processes of a gateway.
    fn record_charges(&self, gateway: &FleetGateway) {
        for event in gateway.audit_events() {
            let charged = event["charged"].as_str().and_then(|text| Amount::parse(text).ok());
            if let (Some(call), Some(charged)) = (event["request_id"].as_str(), charged) {
                let (call, amount) = (call.to_owned(), charged.as_micros());
                let budget = BudgetEvent::Charged { call, amount };
                self.fleet.history.note(&gateway.name, Event::Budget { budget });
            }
        }
    }

    /// Waits until all accounts of gateways with crash marks are closed. Returns whether they are.
    async fn settle(&self, plan: &FleetPlan) -> bool {
        let began = Instant::now();
        let (mut known, mut since) = (Vec::new(), began);
        while began.elapsed() < TIMEOUT {
            sleep(INTERVAL).await;
            let Some(open) = self.open_accounts().await else { continue };
            if open.is_empty() {
                return true;
            }
            if open != known {
                (known, since) = (open, Instant::now());
            } else if since.elapsed() >= STILL && known.iter().all(|open| self.is_lost(open)) {
                if plan.reclaims() {
                    self.reclaim(&known).await;
                }
                return true;
            }
        }
        let fault = format!("accounts have unspent rights: {known:?}");
        self.fleet.history.note(RECORDER, Event::Fault { fault, repeats: false, resends: false });
        false
    }

    /// Whether the crash marks of the account may be lost.
    fn is_lost(&self, open: &BookAccount) -> bool {
        self.fleet.gateways.iter().any(|gateway| gateway.has_lost_marks(&open.account.gateway))
    }

    async fn reclaim(&self, lost: &[BookAccount]) {
        let deadline = Instant::now() + RECLAIM;
        for BookAccount { book, account } in lost {
            while !self.fleet.operator.reclaim(book, account).await && Instant::now() < deadline {
                sleep(INTERVAL).await;
            }
        }
    }

    /// The accounts with unspent rights; `None` if the ledger is unavailable.
    async fn open_accounts(&self) -> Option<Vec<BookAccount>> {
        let mut open = Vec::new();
        for Ended { book, figures } in self.books().await? {
            let is_open = |account: &AccountFigures| account.unspent() > 0;
            let accounts = figures.accounts.into_iter().filter(is_open);
            open.extend(accounts.map(|account| BookAccount { book: book.clone(), account }));
        }
        Some(open)
    }

    async fn books(&self) -> Option<Vec<Ended>> {
        let mut ended = Vec::new();
        for book in self.fleet.operator.books().await? {
            let figures = self.fleet.operator.figures(&book).await?;
            ended.push(Ended { book, figures });
        }
        Some(ended)
    }
}
