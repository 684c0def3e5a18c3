//! Connection information in the extensions of each request.

use std::{net::SocketAddr, sync::Arc};

use rustls::pki_types::CertificateDer;

/// Addresses and client certificate of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Address of the client.
    pub(crate) address: Option<SocketAddr>,
    /// Local address.
    pub(crate) local: Option<SocketAddr>,
    /// Client certificate, verified by TLS.
    pub(crate) certificate: Option<Arc<CertificateDer<'static>>>,
}
