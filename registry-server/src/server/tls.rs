//! TLS for the one port: HTTP/2 and HTTP/1.1, with certificates of clients where a CA is named.
//!
//! Deliberately absent: who a certificate is; access knows.

use std::{path::Path, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio_rustls::TlsAcceptor;

use crate::config::{InvalidConfig, TlsConfig};

/// Makes what accepts TLS, where there is a certificate.
pub(super) fn acceptor(config: &TlsConfig) -> Result<Option<TlsAcceptor>, InvalidConfig> {
    let (Some(certificate), Some(key)) = (&config.tls_cert, &config.tls_key) else {
        return Ok(None);
    };
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|e| invalid(key, &e))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid(certificate, &e))?;
    let builder = match &config.tls_client_ca {
        Some(ca) => builder.with_client_cert_verifier(verifier(ca)?),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_single_cert(chain, key).map_err(|e| invalid(certificate, &e))?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

/// A client need not show a certificate; if it does, it must lead to these.
fn verifier(ca: &Path) -> Result<Arc<dyn ClientCertVerifier>, InvalidConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|e| invalid(ca, &e))?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.allow_unauthenticated().build().map_err(|e| invalid(ca, &e))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, InvalidConfig> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates = read.map_err(|e| invalid(path, &e))?;
    if certificates.is_empty() {
        Err(invalid(path, &"no certificate is in it"))
    } else {
        Ok(certificates)
    }
}

fn invalid(path: &Path, reason: &dyn std::fmt::Display) -> InvalidConfig {
    InvalidConfig::File { path: path.to_path_buf(), reason: reason.to_string() }
}
