//! The holder of a client certificate: its SPIFFE id, or the common name of its subject.
//!
//! TLS has verified the certificate before, including revocation.

use x509_parser::{extensions::GeneralName, prelude::*};

/// The prefix of SPIFFE ids.
pub const SPIFFE: &str = "spiffe://";

/// The holder of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The SPIFFE id or the common name.
    pub name: String,
    /// Whether the name is a SPIFFE id.
    pub is_spiffe: bool,
    /// The expiry in seconds since 1970.
    pub until_seconds: i64,
}

impl Holder {
    /// Reads a certificate (DER). Fails with a reason if it names no holder.
    pub fn read(certificate: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(certificate)
            .map_err(|e| format!("the certificate cannot be parsed: {e}"))?;
        let id = spiffe_id(&certificate)?;
        let is_spiffe = id.is_some();
        let name = match id {
            Some(id) => id,
            None => common_name(&certificate)?,
        };
        let until_seconds = certificate.validity().not_after.timestamp();
        Ok(Self { name, is_spiffe, until_seconds })
    }
}

/// Whether a certificate (DER) belongs to a CA. Most clients reject it as a server certificate.
pub(crate) fn is_ca(certificate: &[u8]) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, certificate)| certificate.is_ca())
}

/// Whether a text has the scheme of SPIFFE ids, in any case.
pub fn is_like_spiffe(text: &str) -> bool {
    text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("spiffe:"))
}

/// The SPIFFE id, if there is one. A malformed one is an error, not replaced by another name.
fn spiffe_id(certificate: &X509Certificate<'_>) -> Result<Option<String>, String> {
    let alternatives = certificate.subject_alternative_name();
    let alternatives =
        alternatives.map_err(|e| format!("the names of the certificate cannot be parsed: {e}"))?;
    let uris = alternatives.iter().flat_map(|names| &names.value.general_names);
    let mut ids = uris.filter_map(|name| match name {
        GeneralName::URI(uri) if is_like_spiffe(uri) => Some(*uri),
        _ => None,
    });
    match (ids.next(), ids.next()) {
        (Some(id), None) if id.starts_with(SPIFFE) => Ok(Some(id.to_owned())),
        (Some(_), None) => {
            Err(format!("the SPIFFE id of the certificate does not start with {SPIFFE}"))
        }
        (Some(_), Some(_)) => Err("the certificate has several SPIFFE ids".to_owned()),
        (None, _) => Ok(None),
    }
}

/// A CA may let clients choose this name, so it never counts as a SPIFFE id.
fn common_name(certificate: &X509Certificate<'_>) -> Result<String, String> {
    let name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    match name.ok_or("the certificate has neither a SPIFFE id nor a common name")? {
        name if is_like_spiffe(name) => {
            Err("the common name of the certificate looks like a SPIFFE id".to_owned())
        }
        name => Ok(name.to_owned()),
    }
}
