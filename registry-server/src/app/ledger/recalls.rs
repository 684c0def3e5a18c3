//! Recalls of idle rights.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
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
    /// Recalls idle rights from the gateways of all servers.
    pub(super) async fn recall(&self, book: &BookKey, accounts: Vec<GatewayAccount>) {
        if accounts.is_empty() || !self.recalls.is_due(book) {
            return;
        }
        self.recalls.send(accounts);
        let notice = RecallNotice { server: self.server.clone(), book: book.clone() };
        if let Err(error) = self.store.notify_recall(&notice).await {
            tracing::debug!(%error, "cannot notify other servers of a recall");
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
