//! Protocol versions and their era.

use gateway_protocol::mcp::{MODERN_VERSION, header};
use http::HeaderMap;

use super::Rejection;
use crate::pipeline::mcp_headers;

/// Versions with sessions, newest first.
pub const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// All supported versions, newest first.
pub const SUPPORTED_VERSIONS: [&str; 4] = [MODERN_VERSION, LEGACY[0], LEGACY[1], LEGACY[2]];

/// Negotiates the version of a session: the requested one, or else the newest.
pub fn negotiated(requested: &str) -> &'static str {
    LEGACY.into_iter().find(|version| *version == requested).unwrap_or(LEGACY[0])
}

/// The version in the header. Unsupported versions are rejected.
pub fn of_header(headers: &HeaderMap) -> Result<Option<&'static str>, Rejection> {
    let Some(requested) = mcp_headers::single(headers, &header::PROTOCOL_VERSION)? else {
        return Ok(None);
    };
    known(requested).map(Some)
}

/// Whether a session version has tasks.
pub fn has_tasks(version: Option<&str>) -> bool {
    version == Some(LEGACY[0])
}

/// Returns a supported version.
pub fn known(requested: &str) -> Result<&'static str, Rejection> {
    let found = SUPPORTED_VERSIONS.into_iter().find(|version| *version == requested);
    let requested = || requested.chars().take(64).collect();
    found.ok_or_else(|| Rejection::UnsupportedVersion { requested: requested() })
}
