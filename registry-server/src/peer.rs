//! The ends of a connection, which handlers find in the extensions of a request.

use std::{net::SocketAddr, sync::Arc};

use rustls::pki_types::CertificateDer;

/// The two ends of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The caller's.
    pub(crate) address: Option<SocketAddr>,
    /// The server's.
    pub(crate) local: Option<SocketAddr>,
    /// The certificate that the caller showed, and TLS has proved.
    pub(crate) certificate: Option<Arc<CertificateDer<'static>>>,
}
