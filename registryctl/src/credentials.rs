//! What the user shows to the registry: a token with every call, a certificate with the connection.
//!
//! A token goes over TLS, or to this machine, or not at all.

use std::{fmt, fs, path::Path};

use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::{Certificate, ClientTlsConfig, Identity},
};

use crate::{address::Address, cli::AccessArgs, failure::Failure};

/// What goes with every call.
#[derive(Clone)]
pub(crate) struct Credentials(Option<MetadataValue<Ascii>>);

impl Credentials {
    /// Reads what the arguments name, and how to speak TLS where that is spoken.
    pub(crate) fn read(
        args: &AccessArgs,
        address: &Address,
    ) -> Result<(Self, Option<ClientTlsConfig>), Failure> {
        let token = args.token()?;
        if token.is_some() && !address.is_tls() && !address.is_loopback() && !args.plaintext_token {
            return Err(Failure::Usage(format!(
                "the token is not sent to {address} in plain text: whoever listens on the way \
                 would have it; use https://, or --plaintext-token where the network is trusted"
            )));
        }
        let value = token.map(|token| {
            let mut value: MetadataValue<Ascii> =
                format!("Bearer {}", token.expose()).parse().map_err(|_| {
                    // It is not repeated, because it is a secret.
                    Failure::Usage("the token has characters that no token has".to_owned())
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
