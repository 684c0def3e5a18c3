//! MCP over Streamable HTTP, in both eras: finding out the era, keeping the session, one request
//! a POST.
//!
//! Deliberately absent: the stream of a legacy `GET` (lists are polled), resuming of event streams,
//! redirects, proxies, and the HTTP+SSE transport of 2024.

mod answer;
mod client;
mod connector;
mod doubt;
mod session;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::http::{HeaderMap, HeaderName, HeaderValue};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use registry_core::Key;
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore},
    time::timeout,
};

pub(super) use self::client::Client;
use self::{
    answer::Answer,
    client::{Address, InvalidAddress},
    session::Session,
};
use super::{
    error::{Breach, Error, Phase},
    handshake::{self, Verdict},
    header,
    message::{self, Era, Outgoing},
    reply::Reply,
};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Most answers at once to what an upstream asks meanwhile. Each is a request of its own, and so a
/// connection; what is asked beyond that gets no answer.
const ANSWERS: usize = 8;

/// One upstream over HTTP.
#[derive(Debug)]
pub(super) struct HttpLink {
    server: Key,
    client: Client,
    address: Address,
    session: ArcSwapOption<Session>,
    next_id: AtomicU64,
    handshake: AsyncMutex<()>,
    answers: Arc<Semaphore>,
    /// How often a handshake failed, and what the last one said.
    failures: Mutex<(u64, String)>,
}

impl HttpLink {
    /// A link that does nothing until it is used.
    pub(super) fn new(
        server: Key,
        url: &str,
        headers: &BTreeMap<String, String>,
        client: Client,
    ) -> Result<Self, InvalidAddress> {
        Ok(Self {
            server,
            client,
            address: Address::parse(url, headers)?,
            session: ArcSwapOption::empty(),
            next_id: AtomicU64::new(1),
            handshake: AsyncMutex::new(()),
            answers: Arc::new(Semaphore::new(ANSWERS)),
            failures: Mutex::default(),
        })
    }

    /// What the upstream speaks, as far as it is known.
    pub(super) fn era(&self) -> Option<Era> {
        self.session.load().as_deref().map(|session| session.era)
    }

    /// Sends a request and waits for its answer. A session that the upstream has forgotten is
    /// opened again, once: it refused the request unread.
    pub(super) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
        mirrored: &[(HeaderName, HeaderValue)],
    ) -> Result<Reply, Error> {
        let session = self.session().await?;
        let answer = self.exchange(&session, outgoing, mirrored).await;
        if doubt::must_start_over(session.era, outgoing, &answer) {
            let is_gone = session.is_gone(&answer);
            if self.forget(&session) && answer.is_ok() && !is_gone {
                self.end_in_background(&session);
            }
            if is_gone {
                let session = self.session().await?;
                return self.exchange(&session, outgoing, mirrored).await?.into_reply();
            }
        }
        answer?.into_reply()
    }

    /// Forgets a session, and says whether it was still the one that is known.
    fn forget(&self, session: &Arc<Session>) -> bool {
        let known = self.session.compare_and_swap(Arc::as_ptr(session), None);
        known.as_ref().is_some_and(|known| Arc::ptr_eq(known, session))
    }

    /// Ends a session of which the upstream may still keep the state.
    fn end_in_background(&self, session: &Session) {
        if session.has_id {
            let request = self.address.delete(session.headers.clone());
            self.client.send_in_background(self.server.clone(), request, ());
        }
    }

    /// The session; the first one who needs it opens it, the others wait for that.
    async fn session(&self) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.session.load_full() {
            return Ok(session);
        }
        let failures = self.failures().0;
        let _only_one = self.handshake.lock().await;
        if let Some(session) = self.session.load_full() {
            return Ok(session);
        }
        let (failures_now, last) = self.failures().clone();
        if failures_now > failures {
            // Somebody has just tried; a queue of attempts would help nobody.
            return Err(Error::Unavailable { target: self.server.clone(), source: last.into() });
        }
        match self.open().await {
            Ok(session) => {
                let session = Arc::new(session);
                self.session.store(Some(Arc::clone(&session)));
                Ok(session)
            }
            Err(error) => {
                let mut failures = self.failures();
                failures.0 += 1;
                failures.1 = error.to_string();
                Err(error)
            }
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, (u64, String)> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out the era, and shakes hands where it has handshakes.
    async fn open(&self) -> Result<Session, Error> {
        let limit_ms = self.client.limits().list_timeout_ms;
        let opened = timeout(Duration::from_millis(limit_ms), async {
            let modern = Session::modern(&self.address.headers);
            let answer = self.exchange(&modern, &Outgoing::Discover, &[]).await;
            match doubt::verdict(answer)? {
                Verdict::Modern => Ok(modern),
                Verdict::Legacy => self.initialize().await,
                Verdict::Foreign => Err(Breach::NoCommonVersion.into()),
            }
        });
        opened.await.unwrap_or(Err(Error::Timeout { phase: Phase::Connect, after_ms: limit_ms }))
    }

    async fn initialize(&self) -> Result<Session, Error> {
        let before = Session::before_initialize(&self.address.headers);
        let mut answer = self.exchange(&before, &Outgoing::Initialize, &[]).await?;
        let id = answer.session_id.take();
        let version = handshake::after_initialize(answer.into_reply()?)?;
        let session = Session::legacy(&self.address.headers, version, id);
        let request = self.address.post(session.headers.clone(), message::initialized());
        let status =
            answer::acknowledgement(self.client.send(&self.server, request).await?).await?;
        if status.is_success() { Ok(session) } else { Err(answer::no(status)) }
    }

    /// One POST and its answer. When the future is dropped, the connection closes; that cancels
    /// the request in the modern era, and in the legacy era a notification does.
    async fn exchange(
        &self,
        session: &Session,
        outgoing: &Outgoing<'_>,
        mirrored: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let headers = request_headers(session, outgoing, mirrored);
        let body = Bytes::from(outgoing.write(id, session.era));
        let cancellable = outgoing.is_cancellable().then_some(id);
        let cancel = CancelOnDrop { link: self, session, id: cancellable };
        let response = self.client.send(&self.server, self.address.post(headers, body)).await?;
        let limit_bytes = self.client.limits().response_bytes;
        let answer_back = |answer| self.answer_back(session, answer);
        let expected = answer::Expected { id, limit_bytes };
        let answer = answer::read(response, expected, answer_back).await;
        cancel.disarm();
        answer
    }

    /// Answers what a legacy server asks, as long as it does not ask too much.
    fn answer_back(&self, session: &Session, body: Bytes) {
        match Arc::clone(&self.answers).try_acquire_owned() {
            Ok(place) => self.post_in_background(session, body, place),
            Err(_) => {
                tracing::debug!(target.server = %self.server, "an upstream asks too much at once");
            }
        }
    }

    /// Sends what needs no answer, without waiting for it; `held` is dropped afterwards.
    fn post_in_background(&self, session: &Session, body: Bytes, held: impl Send + 'static) {
        if session.era == Era::Legacy {
            let request = self.address.post(session.headers.clone(), body);
            self.client.send_in_background(self.server.clone(), request, held);
        }
    }

    /// Says good-bye to a legacy server, which may keep state until then.
    pub(super) async fn close(&self) {
        let Some(session) = self.session.swap(None) else { return };
        if session.has_id {
            let request = self.address.delete(session.headers.clone());
            let farewell = self.client.send(&self.server, request);
            let _ = timeout(Duration::from_secs(1), farewell).await;
        }
    }
}

fn request_headers(
    session: &Session,
    outgoing: &Outgoing<'_>,
    mirrored: &[(HeaderName, HeaderValue)],
) -> HeaderMap {
    let mut headers = session.headers.clone();
    if session.era == Era::Modern {
        headers.insert(METHOD, HeaderValue::from_static(outgoing.method()));
        if let Some(name) = outgoing.name() {
            headers.insert(NAME, header::encode(name));
        }
        headers.extend(mirrored.iter().cloned());
    }
    headers
}

/// Tells a legacy server that nobody waits for a request any more.
struct CancelOnDrop<'a> {
    link: &'a HttpLink,
    session: &'a Session,
    id: Option<u64>,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.post_in_background(self.session, message::cancelled(id), ());
        }
    }
}
