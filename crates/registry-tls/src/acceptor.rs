//! The TLS acceptor of a port, with optional client certificates.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::CertificateRevocationListDer,
    server::{VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::SingleCertAndKey,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{InvalidFile, Reloaded, file::File, reload::Source};

/// Interval between log lines of rejected certificates. Those in between are only counted.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum burst of log lines.
const LOG_BURST: u32 = 20;

/// The TLS files and options of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server certificate and its chain (PEM).
    pub certificate: PathBuf,
    /// The private key of the server (PEM).
    pub key: PathBuf,
    /// CA bundle (PEM) used to verify client certificates.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists (CRL) of these CAs, at least one per CA.
    pub client_crl: Option<PathBuf>,
    /// Whether clients need a certificate if `client_ca` is set.
    pub client_auth: ClientAuth,
    /// The ALPN protocols, most preferred first.
    pub protocols: &'static [&'static str],
}

/// Whether clients need a certificate. A presented certificate must always be valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// A certificate is optional.
    Optional,
    /// A certificate is required.
    Required,
}

/// The callbacks that update the metrics of a program.
#[derive(Debug, Clone, Copy)]
pub struct MetricsHooks {
    /// The files changed and were `applied` or `rejected`.
    pub reloaded: fn(&'static str),
    /// A client certificate was rejected or missing.
    pub rejected: fn(),
}

/// Accepts TLS connections with the current files.
#[derive(Debug, Clone)]
pub struct Acceptor {
    current: Reloaded<ServerConfig>,
    rejected: fn(),
    /// The time when the log budget is full again.
    log_budget: Arc<Mutex<Option<Instant>>>,
}

impl ServerFiles {
    /// Checks that the files can be used.
    pub fn check(&self) -> Result<(), InvalidFile> {
        self.read()?.server().map(drop)
    }

    fn read(&self) -> Result<Read, InvalidFile> {
        Ok(Read {
            certificate: File::read(&self.certificate)?,
            key: File::read(&self.key)?,
            client_ca: File::read_where(self.client_ca.as_ref())?,
            client_crl: File::read_where(self.client_crl.as_ref())?,
            client_auth: self.client_auth,
            protocols: self.protocols,
        })
    }
}

impl Acceptor {
    /// Creates an acceptor and reloads changed files until it is dropped. Must be called inside a
    /// Tokio runtime.
    pub fn open(files: ServerFiles, hooks: MetricsHooks) -> Result<Self, InvalidFile> {
        let MetricsHooks { reloaded, rejected } = hooks;
        let read = move || files.read();
        let current = Reloaded::open(Source { read, make: Read::server, reloaded })?;
        Ok(Self { current, rejected, log_budget: Arc::default() })
    }

    /// Performs the handshake with one client. A connection without TLS is closed without a log
    /// line.
    pub async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let address = stream.peer_addr().ok();
        let accepted = TlsAcceptor::from(self.current.get()).accept(stream).await;
        accepted.map_err(|error| self.note(address, &error)).ok()
    }

    /// Logs and counts a rejected client certificate: a mistake of the operator, or an attack.
    fn note(&self, address: Option<SocketAddr>, error: &io::Error) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let Some(reason) = cause.and_then(rejection_reason) else { return };
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        (self.rejected)();
        if self.may_log(Instant::now()) {
            tracing::warn!(target: "audit", event = "certificate-rejected", address, reason);
        }
    }

    /// Whether a line may be logged: one each second, and a burst.
    fn may_log(&self, now: Instant) -> bool {
        let mut log_budget = self.log_budget.lock().unwrap_or_else(PoisonError::into_inner);
        let until = log_budget.map_or(now, |until| until.max(now));
        let may = until - now <= LOG_INTERVAL * (LOG_BURST - 1);
        if may {
            *log_budget = Some(until + LOG_INTERVAL);
        }
        may
    }
}

/// The reason if the client certificate caused the error.
fn rejection_reason(error: &rustls::Error) -> Option<String> {
    use rustls::Error::{InvalidCertRevocationList, InvalidCertificate, NoCertificatesPresented};
    let is_certificate_error = matches!(
        error,
        InvalidCertificate(_) | InvalidCertRevocationList(_) | NoCertificatesPresented
    );
    is_certificate_error.then(|| error.to_string())
}

/// The content of the files.
#[derive(PartialEq, Eq)]
struct Read {
    certificate: File,
    key: File,
    client_ca: Option<File>,
    client_crl: Option<File>,
    client_auth: ClientAuth,
    protocols: &'static [&'static str],
}

impl Read {
    fn server(&self) -> Result<ServerConfig, InvalidFile> {
        let Self { certificate, key, client_ca, .. } = self;
        let identity = SingleCertAndKey::from(certificate.certified_key(key)?);
        certificate.warn_of_ca()?;
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| certificate.invalid(&e))?;
        let builder = match client_ca {
            Some(ca) => builder.with_client_cert_verifier(self.verifier(ca)?),
            None => builder.with_no_client_auth(),
        };
        let mut server = builder.with_cert_resolver(Arc::new(identity));
        server.alpn_protocols = self.protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Ok(server)
    }

    /// With revocation lists, each certificate of the chain needs a list that has not expired.
    fn verifier(&self, ca: &File) -> Result<Arc<dyn ClientCertVerifier>, InvalidFile> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let roots = Arc::new(ca.roots()?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        if let Some(file) = &self.client_crl {
            let lists: Vec<CertificateRevocationListDer<'_>> = file.all("revocation list")?;
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        if self.client_auth == ClientAuth::Optional {
            builder = builder.allow_unauthenticated();
        }
        let file = self.client_crl.as_ref().unwrap_or(ca);
        builder.build().map_err(|e| match e {
            VerifierBuilderError::InvalidCrl(_) => file.invalid(&format!(
                "{e}; use lists of X.509 version 2 with a CRL number (`crlnumber` in openssl.cnf)"
            )),
            e => file.invalid(&e),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_certificates_are_logged_once_a_second() {
        let current = Reloaded::fixed(
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new())),
        );
        let acceptor = Acceptor { current, rejected: || (), log_budget: Arc::default() };
        let start = Instant::now();
        let logged = (0..100).filter(|_| acceptor.may_log(start)).count();
        assert_eq!(logged, 20);
        assert!(acceptor.may_log(start + LOG_INTERVAL) && !acceptor.may_log(start + LOG_INTERVAL));
    }
}
