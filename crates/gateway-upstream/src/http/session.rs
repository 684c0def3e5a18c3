//! The negotiated session with an upstream: its era and the headers of every request.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use arc_swap::ArcSwapOption;
use gateway_policy::SubjectToken;
use gateway_protocol::mcp::{Era, LOG_LEVELS, MODERN_VERSION, Method, Param, header};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    super::{
        client_channel::ClientChannel,
        request::{Request, RequestContext},
    },
    Error, HttpLink, Outgoing, PostResponse,
    transport::Subject,
};

/// A session with an upstream. In the modern era it only has the era and headers.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) era: Era,
    pub(super) headers: HeaderMap,
    /// Whether the upstream gave the session an id.
    pub(super) has_id: bool,
    /// The subject of the session, with the caller's latest token.
    subject: ArcSwapOption<SubjectToken>,
    /// The callers with running requests, the latest last.
    callers: Mutex<Vec<(u64, ClientChannel)>>,
    entered: AtomicU64,
    /// Cancelled when the session has ended.
    ended: CancellationToken,
    _end: DropGuard,
    /// Cancelled when new requests use another session.
    forgotten: CancellationToken,
    /// The requested log level as an index in [`LOG_LEVELS`]; past its end before the first
    /// request.
    log_level: AtomicUsize,
}

impl Session {
    /// Creates the session of the modern era, which has no handshake.
    pub(super) fn modern(common: &HeaderMap) -> Self {
        let mut headers = common.clone();
        headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(MODERN_VERSION));
        Self::new(Era::Modern, headers, false)
    }

    /// Creates the session of a legacy upstream before the handshake.
    pub(super) fn before_initialize(common: &HeaderMap) -> Self {
        Self::new(Era::Legacy, common.clone(), false)
    }

    /// Creates the session of a legacy upstream after the handshake.
    pub(super) fn legacy(
        common: &HeaderMap,
        version: &'static str,
        id: Option<HeaderValue>,
    ) -> Self {
        let mut headers = common.clone();
        headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(version));
        let has_id = id.is_some();
        if let Some(mut id) = id {
            id.set_sensitive(true);
            headers.insert(header::SESSION_ID, id);
        }
        Self::new(Era::Legacy, headers, has_id)
    }

    fn new(era: Era, headers: HeaderMap, has_id: bool) -> Self {
        let ended = CancellationToken::new();
        Self {
            era,
            headers,
            has_id,
            subject: ArcSwapOption::empty(),
            callers: Mutex::default(),
            entered: AtomicU64::new(0),
            _end: ended.clone().drop_guard(),
            ended,
            forgotten: CancellationToken::new(),
            log_level: AtomicUsize::new(usize::MAX),
        }
    }

    /// Cancelled when the session has ended.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Marks the session as replaced.
    pub(super) fn forget(&self) {
        self.forgotten.cancel();
    }

    /// Resolves when new requests use another session.
    pub(super) async fn forgotten(&self) {
        self.forgotten.cancelled().await;
    }

    /// The subject of the session.
    pub(super) fn subject(&self) -> Subject {
        self.subject.load_full()
    }

    /// Sets the subject and its token.
    pub(super) fn set_subject(&self, subject: &Subject) {
        self.subject.store(subject.clone());
    }

    /// Registers the caller of a request until the guard is dropped.
    pub(super) fn enter(&self, channel: Option<&ClientChannel>) -> Option<Present<'_>> {
        // In the modern era, messages arrive only with the response.
        let channel = channel.filter(|_| self.is_legacy())?.clone();
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        self.callers().push((number, channel));
        Some(Present { session: self, number })
    }

    /// The caller of the latest running request.
    pub(super) fn caller(&self) -> Option<ClientChannel> {
        self.callers().last().map(|(_, channel)| channel.clone())
    }

    fn callers(&self) -> MutexGuard<'_, Vec<(u64, ClientChannel)>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session is legacy.
    pub(super) fn is_legacy(&self) -> bool {
        self.era == Era::Legacy
    }

    /// Whether this response means that the session has expired.
    pub(super) fn is_gone(&self, answer: &Result<PostResponse, Error>) -> bool {
        let status = answer.as_ref().map(|answer| answer.status);
        self.has_id && matches!(status, Ok(StatusCode::NOT_FOUND))
    }
}

/// A registered caller.
pub(super) struct Present<'a> {
    session: &'a Session,
    number: u64,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.session.callers().retain(|(number, _)| *number != self.number);
    }
}

/// Requests log messages of this severity. Callers that share a session may cause more; unwanted
/// messages are filtered per caller.
pub(super) async fn set_level(link: &HttpLink, session: &Session, level: &RawValue) {
    let wanted = LOG_LEVELS.iter().position(|known| level.get().trim_matches('"') == *known);
    let Some(wanted) = wanted.filter(|wanted| *wanted < session.log_level.load(Ordering::Relaxed))
    else {
        return;
    };
    session.log_level.store(wanted, Ordering::Relaxed);
    let params = [Param { name: "level".into(), value: level.to_owned() }];
    let context = RequestContext::default();
    let request = Request::plain(Method::SetLevel, &params, &context);
    // A server without logging rejects this, which must not fail the call.
    let _ = link
        .exchange(session, &Outgoing::Asked { subject: "", request, send_state: None }, &[])
        .await;
}
