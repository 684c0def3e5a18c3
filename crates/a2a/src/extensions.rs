//! The service parameter `A2A-Extensions`: the URIs of extensions, versions included.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{ErrorKind, Failure};

/// The header of extensions.
pub const EXTENSIONS_HEADER: HeaderName = HeaderName::from_static("a2a-extensions");
/// The header of A2A 0.3, which is also read.
pub const LEGACY_EXTENSIONS_HEADER: HeaderName = HeaderName::from_static("x-a2a-extensions");

/// Maximum extensions of one request.
const MAX_EXTENSIONS: usize = 64;

/// The extensions that a client activates. URIs are compared exactly, so that no version of an
/// extension is replaced by another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions(BTreeSet<String>);

impl Extensions {
    /// Reads the headers of a request or an answer, which may be repeated or comma-separated.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let names = [EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER];
        let values = names.iter().flat_map(|name| headers.get_all(name));
        let uris = values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
        let uris = uris.map(str::trim).filter(|uri| !uri.is_empty());
        Self(uris.take(MAX_EXTENSIONS).map(str::to_owned).collect())
    }

    /// Whether the extension with this URI is active.
    pub fn contains(&self, uri: &str) -> bool {
        self.0.contains(uri)
    }

    /// The URIs in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The header value. `None`: no extension is active.
    pub fn header_value(&self) -> Option<HeaderValue> {
        let uris: Vec<_> = self.iter().collect();
        (!uris.is_empty()).then(|| HeaderValue::from_str(&uris.join(",")).ok()).flatten()
    }

    /// Fails with `ExtensionSupportRequired` if a required extension is not active.
    pub fn require<'a>(&self, required: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
        let missing: Vec<_> = required.into_iter().filter(|uri| !self.contains(uri)).collect();
        let Some(first) = missing.first() else { return Ok(()) };
        let message =
            format!("the agent requires the extension {first}; send it in A2A-Extensions");
        Err(Failure::new(ErrorKind::ExtensionSupportRequired, message)
            .with_metadata("requiredExtensions", missing.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_compared_with_their_version() {
        let mut headers = HeaderMap::new();
        headers.append(EXTENSIONS_HEADER, HeaderValue::from_static("urn:a/v1 , urn:b"));
        headers.append(LEGACY_EXTENSIONS_HEADER, HeaderValue::from_static("urn:c,,"));
        let active = Extensions::of_headers(&headers);
        assert_eq!(active.iter().collect::<Vec<_>>(), ["urn:a/v1", "urn:b", "urn:c"]);
        assert_eq!(active.header_value().unwrap(), "urn:a/v1,urn:b,urn:c");
        assert_eq!(active.require(["urn:b"]), Ok(()));
        let failure = active.require(["urn:b", "urn:a/v2"]).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::ExtensionSupportRequired);
    }
}
