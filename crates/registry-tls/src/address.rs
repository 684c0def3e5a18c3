//! Limits the connections of one client address, so that no address can use up a port, and the
//! number of its concurrent handshakes.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The network part of an IPv6 address. One host usually owns all 64 bits below it (RFC 4291,
/// section 2.5.4).
const NETWORK: u128 = !0 << 64;
/// Minimum interval between log lines about rejections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The address that a client counts for: an IPv4 address, or an IPv6 network of 64 bits.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// Limits the connections of each client address on one port. Clones share the counts.
#[derive(Debug, Clone)]
pub struct AddressLimit(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    connections: usize,
    handshakes: usize,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    open: HashMap<IpAddr, Client>,
    /// The last time that a rejection was logged.
    logged: Option<Instant>,
}

#[derive(Debug)]
struct Client {
    connections: usize,
    handshakes: Arc<Semaphore>,
}

/// One connection of an address. Dropping the guard ends it.
#[derive(Debug)]
pub struct AddressPlace {
    counts: Arc<Counts>,
    network: IpAddr,
    handshakes: Arc<Semaphore>,
}

impl AddressLimit {
    /// Limits each address to this many connections and concurrent handshakes.
    pub fn new(connections: usize, handshakes: usize) -> Self {
        Self(Arc::new(Counts { connections, handshakes, clients: Mutex::default() }))
    }

    /// Counts one more connection. `None`: the address is at its limit, and the caller closes the
    /// connection.
    pub fn admit(&self, address: IpAddr) -> Option<AddressPlace> {
        let counts = &self.0;
        let network = client_network(address);
        let mut clients = counts.clients();
        let client = clients.open.entry(network).or_insert_with(|| Client {
            connections: 0,
            handshakes: Arc::new(Semaphore::new(counts.handshakes)),
        });
        if client.connections >= counts.connections {
            if clients.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
                clients.logged = Some(Instant::now());
                tracing::warn!(
                    address = %network,
                    limit = counts.connections,
                    "rejecting connections: the address is at its connection limit",
                );
            }
            return None;
        }
        client.connections += 1;
        let handshakes = Arc::clone(&client.handshakes);
        Some(AddressPlace { counts: Arc::clone(counts), network, handshakes })
    }
}

impl Counts {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressPlace {
    /// Waits until the address has room for another handshake.
    pub async fn handshake(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.handshakes).acquire_owned().await.ok()
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut clients = self.counts.clients();
        let Some(client) = clients.open.get_mut(&self.network) else { return };
        client.connections -= 1;
        if client.connections == 0 {
            clients.open.remove(&self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn ipv6_addresses_count_by_their_network() {
        let same = |a, b| client_network(ip(a)) == client_network(ip(b));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }

    #[tokio::test]
    async fn address_at_its_limit_is_rejected_alone() {
        let limit = AddressLimit::new(2, 1);
        let kept = [(); 2].map(|()| limit.admit(ip("192.0.2.1")).unwrap());
        assert!(limit.admit(ip("192.0.2.1")).is_none());
        let other = limit.admit(ip("192.0.2.2")).unwrap();
        let turn = kept[0].handshake().await;
        assert!(tokio::time::timeout(Duration::ZERO, kept[1].handshake()).await.is_err());
        assert!(other.handshake().await.is_some());
        drop(turn);
        assert!(kept[1].handshake().await.is_some());
        drop((kept, other));
        assert!(limit.0.clients().open.is_empty(), "closed connections leave no entry");
        assert!(limit.admit(ip("192.0.2.1")).is_some());
    }
}
