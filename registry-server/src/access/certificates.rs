//! Who a client's certificate is: its SPIFFE id or the common name of its subject, and what the
//! settings say of that name.
//!
//! TLS has proved the certificate before, also that it was not revoked. Deliberately absent: reading
//! it (`registry-tls`).

use std::net::SocketAddr;

use registry_core::Timestamp;
use registry_tls::Holder;

use super::{Denied, Method, Principal, Scopes, name::misfit};
use crate::config::ClientRule;

/// Longest name, in bytes.
const NAME_BYTES: usize = 256;

/// What is known of the holders of certificates.
#[derive(Debug, Clone, Default)]
pub struct Certificates(Vec<ClientRule>);

impl Certificates {
    /// By these rules.
    pub fn new(rules: Vec<ClientRule>) -> Self {
        Self(rules)
    }

    /// The holder of this certificate (DER). An open connection may outlive its certificate.
    pub(super) fn principal(
        &self,
        certificate: &[u8],
        address: Option<SocketAddr>,
        now: Timestamp,
    ) -> Result<Principal, Denied> {
        let shown =
            read(certificate).map_err(|why| Denied::Invalid(format!("certificate: {why}")))?;
        let Holder { name, is_spiffe, until_seconds } = shown;
        let until = Timestamp::from_millis(until_seconds.saturating_mul(1000));
        if until <= now {
            return Err(Denied::Invalid(format!("the certificate of `{name}` has expired")));
        }
        let fits = |rule: &&ClientRule| {
            if rule.is_spiffe() != is_spiffe {
                false
            } else if rule.is_prefix {
                name.starts_with(&rule.name)
            } else {
                name == rule.name
            }
        };
        let rule = self.0.iter().filter(fits).max_by_key(|rule| (rule.name.len(), !rule.is_prefix));
        let rule =
            rule.ok_or_else(|| Denied::Invalid(format!("no rule for certificate `{name}`")))?;
        Ok(Principal {
            name: name.into(),
            team: rule.team.as_str().into(),
            roles: rule.roles,
            scopes: Scopes::default(),
            method: Method::Certificate,
            address,
            until: Some(until),
        })
    }
}

fn read(certificate: &[u8]) -> Result<Holder, String> {
    let holder = Holder::read(certificate)?;
    match misfit(&holder.name, NAME_BYTES) {
        Some(why) => Err(format!("its name {why}")),
        None => Ok(holder),
    }
}
