//! Whom a client's certificate is for: its SPIFFE id, or the common name of its subject.
//!
//! TLS has proved the certificate before, also that it was not revoked.

use x509_parser::{extensions::GeneralName, prelude::*};

/// What SPIFFE ids begin with.
pub const SPIFFE: &str = "spiffe://";

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Whom it is for.
    pub name: String,
    /// Whether that is a SPIFFE id; else it is a common name.
    pub is_spiffe: bool,
    /// Until when it is valid, in seconds since 1970.
    pub until_seconds: i64,
}

impl Holder {
    /// Reads a certificate (DER); why it names nobody, in words.
    pub fn read(certificate: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(certificate)
            .map_err(|e| format!("it cannot be read: {e}"))?;
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

/// Whether a text has the scheme of SPIFFE ids, however it is written.
pub fn is_like_spiffe(text: &str) -> bool {
    text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("spiffe:"))
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
