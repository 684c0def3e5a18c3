//! Settings of TLS on the server's port. The files may be replaced while the server runs. OCSP is not
//! supported: revocations come from files (CRL).

use std::path::PathBuf;

use clap::Args;
use registry_tls::{Acceptor, Clients, Counts, InvalidFile, ServerFiles};

use crate::{access::ClientRule, metrics};

/// TLS on the server's port.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsConfig {
    /// The server's certificate chain (PEM).
    #[arg(long, env = "REGISTRY_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of the server's certificate (PEM).
    #[arg(long, env = "REGISTRY_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// CA bundle (PEM) used to verify client certificates. A client may present a token instead.
    #[arg(long, env = "REGISTRY_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Certificate revocation lists (CRL, PEM), at least one for each client CA.
    #[arg(long, env = "REGISTRY_TLS_CLIENT_CRL", value_name = "FILE", requires = "tls_client_ca")]
    pub tls_client_crl: Option<PathBuf>,

    /// The team and roles of a client certificate: `NAME=TEAM:ROLE[,ROLE…]`. NAME is its SPIFFE id, or
    /// the common name of its subject if it has no SPIFFE id; a `*` at the end matches any suffix. The
    /// longest matching NAME applies. May be given several times.
    #[arg(
        long = "tls-client",
        env = "REGISTRY_TLS_CLIENTS",
        value_name = "RULE",
        value_delimiter = ';',
        requires = "tls_client_ca"
    )]
    pub tls_clients: Vec<ClientRule>,
}

impl TlsConfig {
    /// The acceptor of TLS connections, if there is a certificate.
    pub(crate) fn acceptor(&self) -> Result<Option<Acceptor>, InvalidFile> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = ServerFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.tls_client_ca.clone(),
            client_crl: self.tls_client_crl.clone(),
            clients: Clients::MayShow,
            protocols: &["h2", "http/1.1"],
        };
        let counts =
            Counts { changed: metrics::tls_changed, refused: metrics::certificate_refused };
        Acceptor::open(files, counts).map(Some)
    }
}
