//! The sender of a request, which the request carries through routes and surfaces.

use std::{net::SocketAddr, sync::Arc};

use gateway_policy::BufferReservation;
use http::request::Parts;

use super::{authenticator::Authentication, credential::PeerCertificate};
use crate::buffers;

/// The connection of a client.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(super) address: SocketAddr,
    /// The quota key of unauthenticated callers of its network.
    pub(super) quota_key: Arc<str>,
    pub(super) certificate: Option<PeerCertificate>,
}

impl ClientConnection {
    pub(crate) fn new(address: SocketAddr, certificate: Option<PeerCertificate>) -> Self {
        Self { address, quota_key: buffers::of_address(address.ip()), certificate }
    }
}

/// The sender of a request: one extension with all facts, because each extension is allocated.
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

    pub(crate) fn of(parts: &Parts) -> Option<&Self> {
        parts.extensions.get()
    }

    pub(crate) fn of_mut(parts: &mut Parts) -> &mut Self {
        parts.extensions.get_or_insert_default()
    }

    pub(super) fn connection(parts: &Parts) -> Option<&ClientConnection> {
        Self::of(parts)?.connection.as_deref()
    }

    /// The memory of a request.
    pub(crate) fn buffered(parts: &Parts) -> Option<&Arc<BufferReservation>> {
        Self::of(parts)?.buffered.as_ref()
    }
}
