//! The sender of a request, which the request carries through routes and surfaces.

use std::{
    net::SocketAddr,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use gateway_policy::{BufferReservation, CallerIdentity, QuotaKey};
use http::{HeaderMap, request::Parts};

use super::{HeaderClaim, authenticator::Authentication, credential::PeerCertificate};
use crate::buffers;

/// The connection of a client.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(super) address: SocketAddr,
    /// The quota key of unauthenticated callers of its network.
    pub(super) quota_key: Arc<str>,
    pub(super) certificate: Option<PeerCertificate>,
    /// The claim of the latest headers. Most requests of a connection have the same.
    latest_claim: Mutex<Option<KeyedClaim>>,
}

impl ClientConnection {
    pub(crate) fn new(address: SocketAddr, certificate: Option<PeerCertificate>) -> Self {
        let quota_key = buffers::of_address(address.ip());
        Self { address, quota_key, certificate, latest_claim: Mutex::default() }
    }

    /// The identity of a claim of headers, shared with the latest request if its claim was the same.
    pub(super) fn keyed(&self, claim: HeaderClaim<'_>) -> KeyedClaim {
        let mut latest = self.latest_claim.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*latest
            && HeaderClaim::of(&known.claim) == Some(claim)
        {
            return known.clone();
        }
        latest.insert(CallerIdentity::from(claim).into()).clone()
    }
}

/// An identity and the quota key that it selects.
#[derive(Debug, Clone)]
pub(super) struct KeyedClaim {
    pub(super) claim: Arc<CallerIdentity>,
    pub(super) quota_key: QuotaKey,
}

impl From<CallerIdentity> for KeyedClaim {
    fn from(claim: CallerIdentity) -> Self {
        Self { quota_key: claim.quota_key(), claim: Arc::new(claim) }
    }
}

/// The sender of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestSender {
    /// `None`: the request came without a connection.
    connection: Option<Arc<ClientConnection>>,
    /// `None` until the sender is authenticated.
    pub(crate) authentication: Option<Authentication>,
    /// The memory of the request. `None` until its body is read.
    pub(crate) buffered: Option<Arc<BufferReservation>>,
}

impl RequestSender {
    /// The sender of a request that arrives on a connection.
    pub(crate) fn on(connection: Arc<ClientConnection>) -> Self {
        Self { connection: Some(connection), ..Self::default() }
    }

    pub(super) fn connection(&self) -> Option<&ClientConnection> {
        self.connection.as_deref()
    }
}

/// The head of a request and its sender. Only the router carries the sender as an extension, which
/// takes three allocations.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    pub(crate) parts: Parts,
    pub(crate) sender: RequestSender,
}

impl RequestHead {
    pub(crate) fn into_headers(self) -> HeaderMap {
        self.parts.headers
    }
}

impl From<Parts> for RequestHead {
    /// Takes the sender out of the extensions.
    fn from(mut parts: Parts) -> Self {
        let sender = parts.extensions.remove().unwrap_or_default();
        Self { parts, sender }
    }
}

impl Deref for RequestHead {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for RequestHead {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent<'a>(name: &'a str, version: Option<&'a str>) -> HeaderClaim<'a> {
        HeaderClaim::Agent { name, version }
    }

    #[test]
    fn connection_keys_changed_claims_anew() {
        let connection = ClientConnection::new(([127, 0, 0, 1], 1).into(), None);
        let (first, other) = (agent("a", None), HeaderClaim::Anonymous);
        for claim in [first, agent("a", Some("1.0.0")), agent("b", None), other, first] {
            let identity = CallerIdentity::from(claim);
            for _ in 0..2 {
                let keyed = connection.keyed(claim);
                assert_eq!((&*keyed.claim, keyed.quota_key), (&identity, identity.quota_key()));
            }
        }
    }

    #[test]
    fn requests_with_same_claim_share_identity() {
        let connection = ClientConnection::new(([127, 0, 0, 1], 1).into(), None);
        let [first, second] = [(); 2].map(|()| connection.keyed(agent("a", None)));
        assert!(Arc::ptr_eq(&first.claim, &second.claim));
    }
}
