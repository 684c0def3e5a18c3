//! Credentials of the caller: an API token for every call, a client certificate for the connection.
//!
//! The token is sent over TLS or to this machine only, unless --allow-insecure-token is set.

use std::{fmt, fs, path::Path};

use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::{Certificate, ClientTlsConfig, Identity},
};

use crate::{address::Address, cli::AccessArgs, failure::Failure};

/// The `authorization` header of every call.
#[derive(Clone)]
pub(crate) struct Credentials(Option<MetadataValue<Ascii>>);

impl Credentials {
    /// Reads the credentials, and the TLS configuration of an address with TLS.
    pub(crate) fn read(
        args: &AccessArgs,
        address: &Address,
    ) -> Result<(Self, Option<ClientTlsConfig>), Failure> {
        let token = args.token()?;
        let is_private = address.is_tls() || address.is_loopback();
        if token.is_some() && !is_private && !args.allow_insecure_token {
            return Err(Failure::Usage(format!(
                "the token would be sent to {address} unencrypted; use https://, or \
                 --allow-insecure-token on a trusted network"
            )));
        }
        let value = token.map(|token| {
            let mut value: MetadataValue<Ascii> =
                format!("Bearer {}", token.expose()).parse().map_err(|_| {
                    // The token is a secret, so the message omits it.
                    Failure::Usage(
                        "the token contains characters that are not allowed in a header; check \
                         REGISTRY_TOKEN or --token-file"
                            .to_owned(),
                    )
                })?;
            value.set_sensitive(true);
            Ok::<_, Failure>(value)
        });
        let tls = if address.is_tls() { Some(tls(args)?) } else { None };
        Ok((Self(value.transpose()?), tls))
    }
}

fn tls(args: &AccessArgs) -> Result<ClientTlsConfig, Failure> {
    let config = ClientTlsConfig::new();
    let config = match &args.ca_cert {
        Some(path) => config.ca_certificate(Certificate::from_pem(read(path)?)),
        None => config.with_native_roots(),
    };
    Ok(match (&args.client_cert, &args.client_key) {
        (Some(certificate), Some(key)) => {
            config.identity(Identity::from_pem(read(certificate)?, read(key)?))
        }
        _ => config,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|e| Failure::unreadable(path, e))
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Credentials(token)" } else { "Credentials(none)" })
    }
}
