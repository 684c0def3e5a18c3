//! Who a client's certificate is: its SPIFFE id or the common name of its subject, and what the
//! settings say of that name.
//!
//! TLS has proved the certificate before, also that it was not revoked. Deliberately absent: names
//! of other sorts (DNS, mail).

use std::net::SocketAddr;

use x509_parser::{extensions::GeneralName, prelude::*};

use super::{Denied, Method, Principal, Scopes};
use crate::config::ClientRule;

/// What SPIFFE ids begin with.
const SPIFFE: &str = "spiffe://";

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
        let name =
            name(certificate).map_err(|why| Denied::Invalid(format!("certificate: {why}")))?;
        let fits = |rule: &&ClientRule| {
            if rule.is_prefix { name.starts_with(&rule.name) } else { name == rule.name }
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
        })
    }
}

/// The name that a certificate is for.
fn name(certificate: &[u8]) -> Result<String, String> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|e| format!("it cannot be read: {e}"))?;
    let alternatives = certificate.subject_alternative_name();
    let alternatives = alternatives.map_err(|e| format!("its names cannot be read: {e}"))?;
    let uris = alternatives.iter().flat_map(|names| &names.value.general_names);
    let mut ids = uris.filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with(SPIFFE) => Some(*uri),
        _ => None,
    });
    let name = match (ids.next(), ids.next()) {
        (Some(id), None) => id,
        (Some(_), Some(_)) => return Err("it has several SPIFFE ids".to_owned()),
        (None, _) => certificate
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok())
            .ok_or("it has neither a SPIFFE id nor a common name")?,
    };
    if name.len() > 256 || name.chars().any(char::is_control) {
        return Err("its name is too long, or has control characters".to_owned());
    }
    Ok(name.to_owned())
}
