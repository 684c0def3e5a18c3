//! What is known about an upstream after the first exchange, as the headers that every request
//! carries from then on.
//!
//! Deliberately absent: how it was found out.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{super::message::MODERN, Answer, Era, Error};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How to speak to an upstream.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) era: Era,
    pub(super) headers: HeaderMap,
    /// Whether the upstream gave the session an id.
    pub(super) has_id: bool,
}

impl Session {
    /// The modern era needs no session; this only says so.
    pub(super) fn modern(common: &HeaderMap) -> Self {
        let mut headers = common.clone();
        headers.insert(VERSION, HeaderValue::from_static(MODERN));
        Self { era: Era::Modern, headers, has_id: false }
    }

    /// The legacy era before the handshake.
    pub(super) fn before_initialize(common: &HeaderMap) -> Self {
        Self { era: Era::Legacy, headers: common.clone(), has_id: false }
    }

    /// The legacy era after it.
    pub(super) fn legacy(
        common: &HeaderMap,
        version: &'static str,
        id: Option<HeaderValue>,
    ) -> Self {
        let mut headers = common.clone();
        headers.insert(VERSION, HeaderValue::from_static(version));
        let has_id = id.is_some();
        if let Some(mut id) = id {
            id.set_sensitive(true);
            headers.insert(SESSION, id);
        }
        Self { era: Era::Legacy, headers, has_id }
    }

    /// Whether this answer says that the upstream has forgotten the session.
    pub(super) fn is_gone(&self, answer: &Result<Answer, Error>) -> bool {
        let status = answer.as_ref().map(|answer| answer.status);
        self.has_id && matches!(status, Ok(StatusCode::NOT_FOUND))
    }
}
