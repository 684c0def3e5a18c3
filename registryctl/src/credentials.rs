//! Credentials of the caller: an API token for every call, a client certificate for the connection.
//!
//! The token is sent over TLS or to this machine only, unless --allow-insecure-token is set.

use std::fmt;

use registry_tls::ClientPem;
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
    let ClientPem { ca, identity } = args.tls_files().read_pem()?;
    let config = match ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    Ok(match identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
        None => config,
    })
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
