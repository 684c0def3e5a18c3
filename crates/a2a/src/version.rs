//! Versions and bindings, and the service parameter `A2A-Version`.

use http::{HeaderMap, HeaderName};
use serde::Serialize;

use crate::error::{ErrorKind, Failure};

/// The header of the version. In queries the parameter has the same name.
pub const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");

/// A version of A2A. Patch versions do not differ on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Version {
    /// 0.3.
    #[serde(rename = "0.3")]
    V03,
    /// 1.0.
    #[serde(rename = "1.0")]
    V1,
}

/// A protocol binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Binding {
    /// JSON-RPC 2.0 over HTTP.
    #[serde(rename = "JSONRPC")]
    JsonRpc,
    /// HTTP methods and paths with JSON bodies.
    #[serde(rename = "HTTP+JSON")]
    HttpJson,
    /// gRPC.
    #[serde(rename = "GRPC")]
    Grpc,
}

/// A version in a JSON binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The version.
    pub version: Version,
    /// The binding. gRPC has the JSON form of `HTTP+JSON`.
    pub binding: Binding,
}

impl Version {
    /// All versions, the newest first.
    pub const ALL: [Self; 2] = [Self::V1, Self::V03];

    /// `Major.Minor`, as in the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V1 => "1.0",
        }
    }

    /// Parses `Major.Minor` with an optional patch version, which is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        let (major, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next());
        let is_patch = |patch: &str| !patch.is_empty() && patch.bytes().all(|b| b.is_ascii_digit());
        if numbers.next().is_some() || !patch.is_none_or(is_patch) {
            return None;
        }
        match (major, minor) {
            ("0", "3") => Some(Self::V03),
            ("1", "0") => Some(Self::V1),
            _ => None,
        }
    }

    /// The version of an interface by the `protocolVersion` of its card. A missing or empty one
    /// means 0.3 (section 3.6.2), and 0.2.x has the wire format of 0.3.
    pub fn of_interface(protocol_version: Option<&str>) -> Option<Self> {
        match protocol_version.map(str::trim) {
            None | Some("") => Some(Self::V03),
            Some(text) if text.starts_with("0.2.") => Some(Self::V03),
            Some(text) => Self::parse(text),
        }
    }

    /// The version of a request by its header, else its query. A missing or empty one means 0.3.
    pub fn of_request(headers: &HeaderMap, query: Option<&str>) -> Result<Self, Failure> {
        let from_query = || {
            let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
            pairs.find(|(name, _)| is_parameter(name)).map(|(_, value)| value.into_owned())
        };
        let header = headers.get(VERSION_HEADER).map(|value| {
            String::from_utf8_lossy(value.as_bytes()).into_owned() // invalid text has no version
        });
        let text = header.filter(|text| !text.trim().is_empty()).or_else(from_query);
        match text.as_deref().map(str::trim) {
            None | Some("") => Ok(Self::V03),
            Some(text) => Self::parse(text).ok_or_else(|| unsupported(text)),
        }
    }
}

/// Whether a query parameter is the version, which is no parameter of an operation.
pub(crate) fn is_parameter(name: &str) -> bool {
    name.eq_ignore_ascii_case(VERSION_HEADER.as_str())
}

fn unsupported(text: &str) -> Failure {
    let shown: String = text.chars().take(32).collect();
    let supported = Version::ALL.map(Version::as_str).join(", ");
    let message = format!("A2A version {shown:?} is not supported; use one of {supported}");
    Failure::new(ErrorKind::VersionNotSupported, message)
        .with_metadata("requestedVersion", shown)
        .with_metadata("supportedVersions", supported)
}

impl Binding {
    /// The name in cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }

    /// Parses the name in a card, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::JsonRpc, Self::HttpJson, Self::Grpc];
        all.into_iter().find(|binding| text.eq_ignore_ascii_case(binding.as_str()))
    }
}

impl Dialect {
    /// JSON-RPC in this version.
    pub fn json_rpc(version: Version) -> Self {
        Self { version, binding: Binding::JsonRpc }
    }

    /// HTTP+JSON in this version.
    pub fn http_json(version: Version) -> Self {
        Self { version, binding: Binding::HttpJson }
    }

    /// The media type of bodies. Requests with `application/json` are accepted everywhere.
    pub fn media_type(self) -> &'static str {
        match (self.version, self.binding) {
            (Version::V1, Binding::HttpJson) => "application/a2a+json",
            _ => "application/json",
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(header: Option<&'static str>, query: Option<&str>) -> Result<Version, ErrorKind> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(VERSION_HEADER, HeaderValue::from_static(header));
        }
        Version::of_request(&headers, query).map_err(|failure| failure.kind)
    }

    #[test]
    fn missing_or_empty_version_means_0_3() {
        for header in [None, Some(""), Some(" ")] {
            for query in [None, Some(""), Some("A2A-Version="), Some("pageSize=1")] {
                assert_eq!(of(header, query), Ok(Version::V03));
            }
        }
    }

    #[test]
    fn patch_version_is_ignored() {
        assert_eq!(of(Some("1.0.1"), None), Ok(Version::V1));
        assert_eq!(of(Some("0.3.0"), None), Ok(Version::V03));
        assert_eq!(of(None, Some("x=1&a2a-version=1.0")), Ok(Version::V1));
        assert_eq!(of(Some("0.3"), Some("A2A-Version=1.0")), Ok(Version::V03));
    }

    #[test]
    fn unknown_version_is_not_supported() {
        for text in ["1", "1.1", "2.0", "0.2", "1.0.x", "1.0.", "1.0.0.0", "v1.0", "1.0-rc"] {
            assert_eq!(of(Some(text), None), Err(ErrorKind::VersionNotSupported), "{text}");
        }
    }
}
