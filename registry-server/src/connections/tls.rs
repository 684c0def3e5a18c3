//! Settings of TLS on the main port. OCSP is not supported: revocations come from CRL files.

use std::path::PathBuf;

use clap::Args;
use registry_tls::{Acceptor, ClientAuth, InvalidFile, MetricsHooks, ServerFiles};

use crate::{access::ClientRule, metrics};

/// TLS on the main port.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsConfig {
    /// Certificate chain of the server (PEM)
    ///
    /// TLS files are reloaded when they change.
    #[arg(long, env = "REGISTRY_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the server's certificate (PEM)
    #[arg(long, env = "REGISTRY_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// CA bundle (PEM) used to verify client certificates
    ///
    /// Client certificates are optional: a client may send a token instead.
    #[arg(long, env = "REGISTRY_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Certificate revocation lists (PEM), at least one for each client CA
    #[arg(
        long,
        env = "REGISTRY_TLS_CLIENT_CRL",
        value_name = "FILE",
        requires = "tls_client_ca",
        hide_short_help = true
    )]
    pub tls_client_crl: Option<PathBuf>,

    /// Team and roles of a client certificate: NAME=TEAM:ROLE[,ROLE…]; may be repeated
    ///
    /// NAME is the SPIFFE id of the certificate, or the common name of its subject if it has no SPIFFE id.
    /// A `*` at the end matches any suffix. The longest matching NAME applies. The environment variable
    /// separates rules with semicolons.
    #[arg(
        long = "tls-client",
        env = "REGISTRY_TLS_CLIENTS",
        value_name = "RULE",
        value_delimiter = ';',
        requires = "tls_client_ca",
        hide_short_help = true
    )]
    pub tls_clients: Vec<ClientRule>,
}

impl TlsConfig {
    /// TLS acceptor, if a certificate is configured.
    pub(crate) fn acceptor(&self) -> Result<Option<Acceptor>, InvalidFile> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let files = ServerFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.tls_client_ca.clone(),
            client_crl: self.tls_client_crl.clone(),
            client_auth: ClientAuth::Optional,
            protocols: &["h2", "http/1.1"],
        };
        let hooks = MetricsHooks {
            reloaded: metrics::tls_reloaded,
            rejected: metrics::certificate_rejected,
        };
        Acceptor::open(files, hooks).map(Some)
    }
}
