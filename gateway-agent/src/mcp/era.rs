//! Protocol versions, and which era a request belongs to.

use gateway_protocol::mcp::{MODERN_VERSION, header};
use http::HeaderMap;

use super::Rejection;
use crate::pipeline::mirror;

/// The revisions with sessions, newest first.
pub const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// Everything that is served, newest first.
pub const SUPPORTED_VERSIONS: [&str; 4] = [MODERN_VERSION, LEGACY[0], LEGACY[1], LEGACY[2]];

/// The version that a client of the older kind gets: the one that it asks for, or else the newest.
pub fn negotiated(requested: &str) -> &'static str {
    LEGACY.into_iter().find(|version| *version == requested).unwrap_or(LEGACY[0])
}

/// The version in the header; one that is not served is refused.
pub fn of_header(headers: &HeaderMap) -> Result<Option<&'static str>, Rejection> {
    let Some(requested) = mirror::single(headers, &header::PROTOCOL_VERSION)? else {
        return Ok(None);
    };
    known(requested).map(Some)
}

/// Whether a version of the older kind has tasks.
pub fn has_tasks(version: Option<&str>) -> bool {
    version == Some(LEGACY[0])
}

/// The version by this name, if it is served.
pub fn known(requested: &str) -> Result<&'static str, Rejection> {
    let found = SUPPORTED_VERSIONS.into_iter().find(|version| *version == requested);
    let requested = || requested.chars().take(64).collect();
    found.ok_or_else(|| Rejection::UnsupportedVersion { requested: requested() })
}
