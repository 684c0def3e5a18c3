//! Who a client's certificate is: its SPIFFE id or the common name of its subject, and what the
//! settings say of that name.
//!
//! TLS has proved the certificate before, also that it was not revoked. Deliberately absent: names
//! of other sorts (DNS, mail).

use std::net::SocketAddr;

use registry_core::Timestamp;
use x509_parser::{extensions::GeneralName, prelude::*};

use super::{Denied, Method, Principal, Scopes, name::misfit};
use crate::config::{ClientRule, SPIFFE, is_like_spiffe};

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

    /// Who holds this certificate (DER).
    pub(super) fn principal(
        &self,
        certificate: &[u8],
        address: Option<SocketAddr>,
    ) -> Result<Principal, Denied> {
        let shown =
            read(certificate).map_err(|why| Denied::Invalid(format!("certificate: {why}")))?;
        let Shown { name, is_spiffe, until } = shown;
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

/// What a certificate says.
struct Shown {
    /// Whom it is for.
    name: String,
    /// Whether that is a SPIFFE id; else it is a common name.
    is_spiffe: bool,
    /// Until when it is valid.
    until: Timestamp,
}

fn read(certificate: &[u8]) -> Result<Shown, String> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|e| format!("it cannot be read: {e}"))?;
    let id = spiffe_id(&certificate)?;
    let is_spiffe = id.is_some();
    let name = match id {
        Some(id) => id,
        None => common_name(&certificate)?,
    };
    if let Some(why) = misfit(&name, NAME_BYTES) {
        return Err(format!("its name {why}"));
    }
    let until = certificate.validity().not_after.timestamp().saturating_mul(1000);
    Ok(Shown { name, is_spiffe, until: Timestamp::from_millis(until) })
}

/// The SPIFFE id, where there is one. One that is badly written is not replaced by another name.
fn spiffe_id(certificate: &X509Certificate<'_>) -> Result<Option<String>, String> {
    let alternatives = certificate.subject_alternative_name();
    let alternatives = alternatives.map_err(|e| format!("its names cannot be read: {e}"))?;
    let uris = alternatives.iter().flat_map(|names| &names.value.general_names);
    let mut ids = uris.filter_map(|name| match name {
        GeneralName::URI(uri) if is_like_spiffe(uri) => Some(*uri),
        _ => None,
    });
    match (ids.next(), ids.next()) {
        (Some(id), None) if id.starts_with(SPIFFE) => Ok(Some(id.to_owned())),
        (Some(_), None) => Err(format!("its SPIFFE id does not begin with {SPIFFE}")),
        (Some(_), Some(_)) => Err("it has several SPIFFE ids".to_owned()),
        (None, _) => Ok(None),
    }
}

/// Whoever signs certificates may let clients choose this name, so it is never a SPIFFE id.
fn common_name(certificate: &X509Certificate<'_>) -> Result<String, String> {
    let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    match name.ok_or("it has neither a SPIFFE id nor a common name")? {
        name if is_like_spiffe(name) => Err("its common name looks like a SPIFFE id".to_owned()),
        name => Ok(name.to_owned()),
    }
}
