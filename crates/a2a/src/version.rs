//! Versions and bindings.

use http::HeaderName;
use serde::Serialize;

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

/// A version in a binding.
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

    /// gRPC, which exists in 1.0 only.
    pub fn grpc() -> Self {
        Self { version: Version::V1, binding: Binding::Grpc }
    }

    /// The media type of bodies. Requests with `application/json` are accepted everywhere.
    pub fn media_type(self) -> &'static str {
        match (self.version, self.binding) {
            (Version::V1, Binding::HttpJson) => "application/a2a+json",
            _ => "application/json",
        }
    }
}
