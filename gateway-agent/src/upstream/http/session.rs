//! What is known about an upstream after the first exchange, as the headers that every request
//! carries from then on.
//!
//! Deliberately absent: how it was found out.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::value::RawValue;

use super::{
    super::{
        message::MODERN,
        request::{Context, LOG_LEVELS, Method, Param, Request},
    },
    Answer, Era, Error, HttpLink, Outgoing,
};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How to speak to an upstream.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) era: Era,
    pub(super) headers: HeaderMap,
    /// Whether the upstream gave the session an id.
    pub(super) has_id: bool,
    /// The least severity of log messages that it was told to send, in [`LOG_LEVELS`]; past their
    /// end before it was told.
    log_level: AtomicUsize,
}

impl Session {
    /// The modern era needs no session; this only says so.
    pub(super) fn modern(common: &HeaderMap) -> Self {
        let mut headers = common.clone();
        headers.insert(VERSION, HeaderValue::from_static(MODERN));
        Self::new(Era::Modern, headers, false)
    }

    /// The legacy era before the handshake.
    pub(super) fn before_initialize(common: &HeaderMap) -> Self {
        Self::new(Era::Legacy, common.clone(), false)
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
        Self::new(Era::Legacy, headers, has_id)
    }

    fn new(era: Era, headers: HeaderMap, has_id: bool) -> Self {
        Self { era, headers, has_id, log_level: AtomicUsize::new(usize::MAX) }
    }

    /// Whether it belongs to the older era.
    pub(super) fn is_legacy(&self) -> bool {
        self.era == Era::Legacy
    }

    /// Whether this answer says that the upstream has forgotten the session.
    pub(super) fn is_gone(&self, answer: &Result<Answer, Error>) -> bool {
        let status = answer.as_ref().map(|answer| answer.status);
        self.has_id && matches!(status, Ok(StatusCode::NOT_FOUND))
    }
}

/// Sees to it that log messages of this severity come. Callers who share a session may get more;
/// what they do not want is held back from them.
pub(super) async fn set_level(link: &HttpLink, session: &Session, level: &RawValue) {
    let wanted = LOG_LEVELS.iter().position(|known| level.get().trim_matches('"') == *known);
    let Some(wanted) = wanted.filter(|wanted| *wanted < session.log_level.load(Ordering::Relaxed))
    else {
        return;
    };
    session.log_level.store(wanted, Ordering::Relaxed);
    let params = [Param { name: "level".into(), value: level.to_owned() }];
    let context = Context::default();
    let request = Request::plain(Method::SetLevel, &params, &context);
    // Who keeps no log refuses, which is no reason to refuse the call.
    let _ = link.exchange(session, &Outgoing::Asked { subject: "", request }, &[]).await;
}
