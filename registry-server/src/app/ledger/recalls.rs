//! Recalls of idle rights, for the connected gateways.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ledger::{AccountKey, Recall, account::AccountRow};
use registry_core::Amount;
use tokio::sync::mpsc;

use super::{Ledger, MAX_ACCOUNTS};
use crate::{
    metrics,
    store::{BookKey, GatewayAccount, RecallNotice},
};

/// Maximum number of streams of one gateway.
const WATCHERS: usize = 64;
/// Recalls that wait for a slow stream; further ones are dropped, and the waiting gateways repeat their requests.
const QUEUE: usize = 16;
/// Minimum interval between recalls of one budget. Gateways answer within 250 ms.
const INTERVAL: Duration = Duration::from_millis(100);

/// Too many streams of recalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway has {WATCHERS} streams of recalls; close some of them")]
pub struct TooManyWatchers;

/// The streams of the gateways that are connected to this server.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    watchers: Mutex<HashMap<Arc<str>, Vec<mpsc::Sender<Recall>>>>,
    /// The times of the last recalls.
    last: Mutex<HashMap<BookKey, Instant>>,
}

impl Recalls {
    pub(super) fn watch(
        &self,
        gateway: &Arc<str>,
    ) -> Result<mpsc::Receiver<Recall>, TooManyWatchers> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|_, streams| {
            streams.retain(|stream| !stream.is_closed());
            !streams.is_empty()
        });
        let streams = watchers.entry(gateway.clone()).or_default();
        if streams.len() >= WATCHERS {
            return Err(TooManyWatchers);
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        streams.push(sender);
        Ok(receiver)
    }

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
        let mut by_gateway: HashMap<String, Recall> = HashMap::new();
        for GatewayAccount { gateway, key } in accounts {
            by_gateway.entry(gateway).or_default().accounts.push(key);
        }
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for (gateway, recall) in by_gateway {
            for stream in watchers.get(gateway.as_str()).into_iter().flatten() {
                // A full queue has recalls already.
                let _ = stream.try_send(recall.clone());
            }
        }
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
