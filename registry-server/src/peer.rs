//! Connection information in the extensions of each request.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustls::pki_types::CertificateDer;

/// Addresses, client certificate and followers of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Address of the client.
    pub(crate) address: Option<SocketAddr>,
    /// Local address.
    pub(crate) local: Option<SocketAddr>,
    /// Client certificate, verified by TLS.
    pub(crate) certificate: Option<Arc<CertificateDer<'static>>>,
    /// Followers of the connection.
    pub(crate) followers: FollowerCount,
}

/// Number of followers of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct FollowerCount(Arc<AtomicUsize>);

/// A follower in the count of its connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedFollower(Arc<AtomicUsize>);

impl FollowerCount {
    /// Counts a follower.
    pub(crate) fn add(&self) -> CountedFollower {
        self.0.fetch_add(1, Ordering::Relaxed);
        CountedFollower(self.0.clone())
    }

    /// Whether the connection has more than one follower.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

impl Drop for CountedFollower {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
