//! The streams of recalls to connected gateways, and to relays of other gateways.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ledger::GatewayAccount;
use tokio::sync::mpsc;

/// Maximum number of streams of one gateway or relay.
const WATCHERS: usize = 64;
/// Recalls that wait for a slow stream of a gateway; further ones are dropped, and the waiting gateways repeat their
/// requests.
const GATEWAY_QUEUE: usize = 16;
/// The same for a relay, which receives the recalls of all gateways.
const RELAY_QUEUE: usize = 256;

/// Too many streams of recalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the caller has {WATCHERS} streams of recalls; close some of them")]
pub struct TooManyWatchers;

/// The subscriber of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watcher {
    /// A gateway, for its own recalls.
    Gateway(Arc<str>),
    /// A relay, for the recalls of all gateways.
    Relay(Arc<str>),
}

/// The streams of the gateways and relays that are connected to this server.
#[derive(Debug, Default)]
pub(super) struct RecallStreams {
    gateways: Mutex<StreamsByName>,
    relays: Mutex<StreamsByName>,
}

/// Streams by the principal of their subscriber.
#[derive(Debug, Default)]
struct StreamsByName(HashMap<Arc<str>, Vec<mpsc::Sender<Vec<GatewayAccount>>>>);

impl RecallStreams {
    /// Opens a stream.
    pub(super) fn watch(
        &self,
        watcher: &Watcher,
    ) -> Result<mpsc::Receiver<Vec<GatewayAccount>>, TooManyWatchers> {
        let (streams, name, queue) = match watcher {
            Watcher::Gateway(name) => (&self.gateways, name, GATEWAY_QUEUE),
            Watcher::Relay(name) => (&self.relays, name, RELAY_QUEUE),
        };
        streams.lock().unwrap_or_else(PoisonError::into_inner).watch(name, queue)
    }

    /// Sends a recall to the gateways of these accounts, and to all relays.
    pub(super) fn send(&self, accounts: Vec<GatewayAccount>) {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner).send_to_all(&accounts);
        let mut by_gateway: HashMap<String, Vec<GatewayAccount>> = HashMap::new();
        for account in accounts {
            by_gateway.entry(account.gateway.clone()).or_default().push(account);
        }
        let gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        for (gateway, accounts) in by_gateway {
            gateways.send(&gateway, &accounts);
        }
    }

    /// Ends all streams.
    pub(super) fn close(&self) {
        for streams in [&self.gateways, &self.relays] {
            streams.lock().unwrap_or_else(PoisonError::into_inner).0.clear();
        }
    }
}

impl StreamsByName {
    fn watch(
        &mut self,
        name: &Arc<str>,
        queue: usize,
    ) -> Result<mpsc::Receiver<Vec<GatewayAccount>>, TooManyWatchers> {
        self.0.retain(|_, streams| {
            streams.retain(|stream| !stream.is_closed());
            !streams.is_empty()
        });
        let streams = self.0.entry(name.clone()).or_default();
        if streams.len() >= WATCHERS {
            return Err(TooManyWatchers);
        }
        let (sender, receiver) = mpsc::channel(queue);
        streams.push(sender);
        Ok(receiver)
    }

    fn send(&self, name: &str, accounts: &[GatewayAccount]) {
        for stream in self.0.get(name).into_iter().flatten() {
            // A full queue has recalls already.
            let _ = stream.try_send(accounts.to_vec());
        }
    }

    fn send_to_all(&self, accounts: &[GatewayAccount]) {
        for name in self.0.keys() {
            self.send(name, accounts);
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::{AccountKey, BudgetKey, Epoch, WindowId};

    use super::*;

    fn account(gateway: &str) -> GatewayAccount {
        let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "s".into() };
        let key = AccountKey { budget, window: WindowId::new("total"), epoch: Epoch::new(1) };
        GatewayAccount { gateway: gateway.to_owned(), key }
    }

    #[test]
    fn relay_receives_recalls_of_all_gateways() {
        let streams = RecallStreams::default();
        let mut gateway = streams.watch(&Watcher::Gateway("a".into())).unwrap();
        // The name of a relay does not select the recalls of a gateway.
        let mut relay = streams.watch(&Watcher::Relay("b".into())).unwrap();
        streams.send(vec![account("a"), account("b")]);
        assert_eq!(gateway.try_recv().unwrap(), [account("a")]);
        assert_eq!(relay.try_recv().unwrap(), [account("a"), account("b")]);
        streams.send(vec![account("c")]);
        assert_eq!(relay.try_recv().unwrap(), [account("c")]);
        assert_eq!(gateway.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    #[test]
    fn streams_of_one_watcher_are_limited() {
        let streams = RecallStreams::default();
        let watch = |name: &str| streams.watch(&Watcher::Gateway(name.into()));
        let mut open: Vec<_> = (0..WATCHERS).map(|_| watch("a").unwrap()).collect();
        assert_eq!(watch("a").unwrap_err(), TooManyWatchers);
        assert!(watch("b").is_ok());
        open.pop();
        assert!(watch("a").is_ok());
    }

    #[test]
    fn closed_streams_end() {
        let streams = RecallStreams::default();
        let mut gateway = streams.watch(&Watcher::Gateway("a".into())).unwrap();
        streams.close();
        assert_eq!(gateway.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
