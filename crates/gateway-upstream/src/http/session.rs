//! What is known about an upstream after the first exchange, as the headers that every request
//! carries from then on.

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
        request::{Context, Request},
        side::Side,
    },
    Answer, Error, HttpLink, Outgoing,
    way::OnBehalf,
};

/// How to speak to an upstream.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) era: Era,
    pub(super) headers: HeaderMap,
    /// Whether the upstream gave the session an id.
    pub(super) has_id: bool,
    /// In whose name it is, and the last token of that caller.
    on_behalf: ArcSwapOption<SubjectToken>,
    /// Who waits for an answer in it, the latest last.
    callers: Mutex<Vec<(u64, Side)>>,
    entered: AtomicU64,
    /// Cancelled when nobody has the session any more.
    ended: CancellationToken,
    _end: DropGuard,
    /// Cancelled when new requests go over another session.
    forgotten: CancellationToken,
    /// The least severity of log messages that it was told to send, in [`LOG_LEVELS`]; past their
    /// end before it was told.
    log_level: AtomicUsize,
}

impl Session {
    /// The modern era needs no session; this only says so.
    pub(super) fn modern(common: &HeaderMap) -> Self {
        let mut headers = common.clone();
        headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(MODERN_VERSION));
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
            on_behalf: ArcSwapOption::empty(),
            callers: Mutex::default(),
            entered: AtomicU64::new(0),
            _end: ended.clone().drop_guard(),
            ended,
            forgotten: CancellationToken::new(),
            log_level: AtomicUsize::new(usize::MAX),
        }
    }

    /// Cancelled when nobody has the session any more.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// New requests go over another session.
    pub(super) fn forget(&self) {
        self.forgotten.cancel();
    }

    /// Resolves when new requests go over another session.
    pub(super) async fn forgotten(&self) {
        self.forgotten.cancelled().await;
    }

    /// In whose name it is.
    pub(super) fn on_behalf(&self) -> OnBehalf {
        self.on_behalf.load_full()
    }

    /// Goes on in this caller's name, with this token.
    pub(super) fn act_for(&self, on_behalf: &OnBehalf) {
        self.on_behalf.store(on_behalf.clone());
    }

    /// Notes who waits for an answer, until what is returned is dropped.
    pub(super) fn enter(&self, side: Option<&Side>) -> Option<Present<'_>> {
        // In the modern era nothing comes but with the answer.
        let side = side.filter(|_| self.is_legacy())?.clone();
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        self.callers().push((number, side));
        Some(Present { session: self, number })
    }

    /// Who asked last, and waits.
    pub(super) fn caller(&self) -> Option<Side> {
        self.callers().last().map(|(_, side)| side.clone())
    }

    fn callers(&self) -> MutexGuard<'_, Vec<(u64, Side)>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Somebody who waits for an answer.
pub(super) struct Present<'a> {
    session: &'a Session,
    number: u64,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.session.callers().retain(|(number, _)| *number != self.number);
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
    let _ = link
        .exchange(session, &Outgoing::Asked { subject: "", request, departure: None }, &[])
        .await;
}
