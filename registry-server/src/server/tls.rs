//! TLS for the one port: HTTP/2 and HTTP/1.1, with certificates of clients where a CA is named.
//!
//! The files are read again every [`FRESH`]: what changed holds for new connections, and where it
//! cannot be used, what was there before goes on. Deliberately absent: who a certificate is; access
//! knows. And ending connections whose certificate is revoked later; they stay.

use std::{
    io,
    net::SocketAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateRevocationListDer, PrivateKeyDer, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{fs, net::TcpStream, time::sleep};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    access::RateLimit,
    config::{InvalidConfig, TlsConfig},
    metrics,
};

/// How often the files are read.
const FRESH: Duration = Duration::from_secs(2);

/// Refused certificates that are logged each second, and at once: others only count.
const TOLD: (NonZeroU32, NonZeroU32) = (NonZeroU32::MIN, NonZeroU32::MIN.saturating_add(19));

/// What accepts TLS, as the files say now.
#[derive(Clone)]
pub(super) struct Tls {
    current: Arc<ArcSwap<ServerConfig>>,
    told: Arc<RateLimit<()>>,
}

impl Tls {
    /// Where there is a certificate. Keeps reading the files for as long as it is used.
    pub(super) async fn open(config: &TlsConfig) -> Result<Option<Self>, InvalidConfig> {
        let Some(files) = Files::read(config).await? else { return Ok(None) };
        let current = Arc::new(ArcSwap::from_pointee(files.server()?));
        tokio::spawn(keep_fresh(config.clone(), files, Arc::downgrade(&current)));
        let told = Arc::new(RateLimit::new(TOLD.0, TOLD.1));
        Ok(Some(Self { current, told }))
    }

    /// Shakes hands with one caller. Whoever speaks no TLS is not worth a line of log.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let address = stream.peer_addr().ok();
        let accepted = TlsAcceptor::from(self.current.load_full()).accept(stream).await;
        accepted.map_err(|error| self.note(address, &error)).ok()
    }

    /// A client's certificate that is not good may be a mistake of ours, or an attack.
    fn note(&self, address: Option<SocketAddr>, error: &io::Error) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let Some(reason) = cause.and_then(refusal) else { return };
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        metrics::certificate_refused();
        if self.told.take(&(), Instant::now()).is_ok() {
            tracing::warn!(target: "audit", event = "certificate-refused", address, reason);
        }
    }
}

/// What is wrong with the certificate of a client, where that is what went wrong.
fn refusal(error: &rustls::Error) -> Option<String> {
    use rustls::Error::{InvalidCertRevocationList, InvalidCertificate};
    matches!(error, InvalidCertificate(_) | InvalidCertRevocationList(_)).then(|| error.to_string())
}

/// Tells each change once, whatever comes of it.
async fn keep_fresh(config: TlsConfig, files: Files, current: Weak<ArcSwap<ServerConfig>>) {
    let mut seen = Ok(Some(files));
    loop {
        sleep(FRESH).await;
        let Some(current) = current.upgrade() else { return };
        let read = Files::read(&config).await.map_err(|error| error.to_string());
        if read == seen {
            continue;
        }
        seen = read;
        let server = match &seen {
            Ok(Some(files)) => files.server().map_err(|error| error.to_string()),
            Ok(None) => continue,
            Err(reason) => Err(reason.clone()),
        };
        match server {
            Ok(server) => {
                current.store(Arc::new(server));
                metrics::tls_changed("taken");
                tracing::info!("the files of TLS have changed; new connections get the new ones");
            }
            Err(reason) => {
                metrics::tls_changed("refused");
                tracing::error!(reason, "the files of TLS have changed; those before go on");
            }
        }
    }
}

/// What the settings name.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: File,
    key: File,
    client_ca: Option<File>,
    client_crl: Option<File>,
}

/// A file and what is in it.
#[derive(PartialEq, Eq)]
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Files {
    /// `None`: the settings name no certificate.
    async fn read(config: &TlsConfig) -> Result<Option<Self>, InvalidConfig> {
        let (Some(certificate), Some(key)) = (&config.tls_cert, &config.tls_key) else {
            return Ok(None);
        };
        Ok(Some(Self {
            certificate: File::read(certificate).await?,
            key: File::read(key).await?,
            client_ca: File::read_where(config.tls_client_ca.as_deref()).await?,
            client_crl: File::read_where(config.tls_client_crl.as_deref()).await?,
        }))
    }

    fn server(&self) -> Result<ServerConfig, InvalidConfig> {
        let Self { certificate, key, client_ca, client_crl } = self;
        let chain = certificate.all("certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&key.bytes).map_err(|e| key.invalid(&e))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| certificate.invalid(&e))?;
        let builder = match client_ca {
            Some(ca) => builder.with_client_cert_verifier(verifier(ca, client_crl.as_ref())?),
            None => builder.with_no_client_auth(),
        };
        let server = builder.with_single_cert(chain, key);
        let mut server = server.map_err(|e| certificate.invalid(&e))?;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(server)
    }
}

/// A client need not show a certificate; if it does, it must lead to these. With revocation lists,
/// each certificate on that way must be in the scope of one that is not over.
fn verifier(
    ca: &File,
    revoked: Option<&File>,
) -> Result<Arc<dyn ClientCertVerifier>, InvalidConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.all("certificate")? {
        roots.add(certificate).map_err(|e| ca.invalid(&e))?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match revoked {
        Some(file) => {
            let lists: Vec<CertificateRevocationListDer<'_>> = file.all("revocation list")?;
            builder.with_crls(lists).enforce_revocation_expiration()
        }
        None => builder,
    };
    let file = revoked.unwrap_or(ca);
    builder.allow_unauthenticated().build().map_err(|e| file.invalid(&e))
}

impl File {
    async fn read(path: &Path) -> Result<Self, InvalidConfig> {
        let path = path.to_path_buf();
        match fs::read(&path).await {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(e) => Err(InvalidConfig::File { path, reason: e.to_string() }),
        }
    }

    async fn read_where(path: Option<&Path>) -> Result<Option<Self>, InvalidConfig> {
        match path {
            Some(path) => Self::read(path).await.map(Some),
            None => Ok(None),
        }
    }

    /// Everything of a sort in it (PEM): one at least.
    fn all<T: PemObject>(&self, what: &str) -> Result<Vec<T>, InvalidConfig> {
        let read: Result<Vec<_>, _> = T::pem_slice_iter(&self.bytes).collect();
        let all = read.map_err(|e| self.invalid(&e))?;
        if all.is_empty() { Err(self.invalid(&format!("no {what} is in it"))) } else { Ok(all) }
    }

    fn invalid(&self, reason: &dyn std::fmt::Display) -> InvalidConfig {
        InvalidConfig::File { path: self.path.clone(), reason: reason.to_string() }
    }
}
