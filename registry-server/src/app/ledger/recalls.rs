//! Recalls of idle rights.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ledger::{AccountKey, GatewayAccount, account::AccountRow};
use registry_core::Amount;

use super::{Ledger, MAX_ACCOUNTS, recall_streams::RecallStreams};
use crate::{
    metrics,
    store::{BookKey, RecallNotice},
};

/// Minimum interval between recalls of one budget. Gateways answer within 250 ms.
const INTERVAL: Duration = Duration::from_millis(100);

/// The recalls of this server.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    pub(super) streams: RecallStreams,
    /// The times of the last recalls.
    last: Mutex<HashMap<BookKey, Instant>>,
}

impl Recalls {
    /// Whether a budget was not recalled recently.
    fn is_due(&self, book: &BookKey) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, at| now.duration_since(*at) < INTERVAL);
        if last.contains_key(book) {
            return false;
        }
        last.insert(book.clone(), now);
        true
    }

    fn send(&self, accounts: Vec<GatewayAccount>) {
        metrics::ledger_recalled(accounts.len());
        self.streams.send(accounts);
    }
}

impl Ledger {
    /// Recalls idle rights of budgets from the gateways of this server. Other servers learn of it later, so that the
    /// next transaction does not wait for their notification.
    pub(super) fn recall(self: &Arc<Self>, recalls: Vec<(BookKey, Vec<GatewayAccount>)>) {
        let mut notices = Vec::new();
        for (book, accounts) in recalls {
            if !accounts.is_empty() && self.recalls.is_due(&book) {
                self.recalls.send(accounts);
                notices.push(RecallNotice { server: self.server.clone(), book });
            }
        }
        if !notices.is_empty() {
            tokio::spawn(self.clone().notify_recalls(notices));
        }
    }

    async fn notify_recalls(self: Arc<Self>, notices: Vec<RecallNotice>) {
        if let Err(error) = self.store.notify_recalls(&notices).await {
            tracing::debug!(%error, "cannot notify other servers of recalls");
        }
    }

    /// Recalls idle rights from the gateways of this server.
    pub(super) async fn forward_recall(&self, book: &BookKey) {
        let Ok(listed) = self.store.list_accounts(book, MAX_ACCOUNTS).await else { return };
        let has_rights = |row: &AccountRow| row.unspent() > Amount::ZERO;
        let accounts = listed.into_iter().filter(|account| has_rights(&account.row));
        let accounts = accounts.map(|account| GatewayAccount {
            gateway: account.gateway,
            key: AccountKey {
                budget: book.budget.clone(),
                window: book.window.clone(),
                epoch: account.epoch,
            },
        });
        self.recalls.send(accounts.collect());
    }
}
