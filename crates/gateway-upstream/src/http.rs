//! MCP over Streamable HTTP in both eras: era detection, sessions, and one request per POST.
//!
//! A legacy client with a session gets its own upstream session, if the upstream has sessions,
//! because such servers may keep state in them. All other requests share one session. The HTTP+SSE
//! transport of 2024 is recognized and rejected by name. Redirects are not followed, and proxies
//! are not used.

mod answer;
mod auth;
mod cancel;
mod check;
mod client;
mod connector;
mod dial;
mod doubt;
mod ear;
mod headers;
mod http_sse;
mod listen;
mod own;
mod resume;
mod session;
mod way;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::http::{HeaderMap, HeaderName, HeaderValue};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use gateway_protocol::{
    jsonrpc,
    mcp::{Era, header},
};
use tokio::time::timeout;

use self::{
    answer::Answer,
    cancel::CancelOnDrop,
    ear::Ear,
    own::{Lease, OwnSessions},
    session::Session,
};
pub(super) use self::{
    answer::{Expected, read_one},
    client::InvalidAddress,
    way::{OnBehalf, Way},
};
pub use self::{client::Client, connector::Connector};
use super::{
    announce::Announcer,
    attempt::Attempts,
    error::{Breach, Error, Phase},
    handshake::{self, About, Verdict},
    message::{self, Outgoing},
    reply::Reply,
    routing::TargetId,
    subscriptions::Subscriptions,
};
use crate::TransportConfig;

/// One upstream over HTTP.
#[derive(Debug)]
pub(super) struct HttpLink {
    way: Arc<Way>,
    session: ArcSwapOption<Session>,
    own: OwnSessions,
    about: ArcSwapOption<About>,
    next_id: AtomicU64,
    handshakes: Attempts,
}

/// The headers that mirror parts of a request.
type Mirrored<'a> = &'a [(HeaderName, HeaderValue)];

impl HttpLink {
    /// Creates a link without connecting. Must be called inside a Tokio runtime.
    pub(super) fn new(
        announcer: Arc<Announcer>,
        server: TargetId,
        transport: &TransportConfig,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        let way = Way::new(server, announcer, transport, shared)?;
        Ok(Self {
            own: OwnSessions::new(way.client.limits().sessions),
            way: Arc::new(way),
            session: ArcSwapOption::empty(),
            about: ArcSwapOption::empty(),
            next_id: AtomicU64::new(1),
            handshakes: Attempts::default(),
        })
    }

    /// The era of the upstream, if it is known.
    pub(super) fn era(&self) -> Option<Era> {
        self.session.load().as_deref().map(|session| session.era)
    }

    /// The self-description of the upstream.
    pub(super) fn about(&self) -> Option<Arc<About>> {
        self.about.load_full()
    }

    /// Sends a request and waits for its response. An expired session is reopened once, because the
    /// upstream rejected the request unprocessed. Rare branches are boxed, here and below, to keep
    /// the future of each call small.
    pub(super) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
        mirrored: Mirrored<'_>,
    ) -> Result<(Reply, Era), Error> {
        let caller = self.way.caller(outgoing)?;
        let before = |error: Error| error.before_request(&self.way.server);
        let mut lease = self.lease_for(outgoing, &caller).await.map_err(before)?;
        let opened = self.session_for(outgoing, (lease.as_ref(), &caller)).await;
        let session = opened.map_err(before)?;
        let answer = self.exchange(&session, outgoing, mirrored).await;
        if let (Some(lease), Ok(_)) = (&mut lease, &answer) {
            lease.over();
        }
        if doubt::must_start_over(session.era, outgoing, &answer) {
            let is_gone = session.is_gone(&answer);
            if self.forget(&session) && answer.is_ok() && !is_gone {
                self.end_when_unused(&session);
            }
            if is_gone {
                let again = async {
                    let opened = self.session_for(outgoing, (lease.as_ref(), &caller)).await;
                    let session = opened.map_err(before)?;
                    let answer = self.exchange(&session, outgoing, mirrored).await?;
                    Ok((answer.into_reply()?, session.era))
                };
                return Box::pin(again).await;
            }
        }
        Ok((answer?.into_reply()?, session.era))
    }

    /// Removes a session. Returns whether it was known. Running requests in it continue.
    fn forget(&self, session: &Arc<Session>) -> bool {
        session.forget();
        if self.own.forget(session) {
            return true;
        }
        let known = self.session.compare_and_swap(Arc::as_ptr(session), None);
        known.as_ref().is_some_and(|known| Arc::ptr_eq(known, session))
    }

    /// Ends a session whose state the upstream may still keep.
    fn end_in_background(&self, session: &Session) {
        if session.has_id {
            let request = self.way.address.delete(session.headers.clone());
            self.way.send_in_background(request, session.on_behalf(), ());
        }
    }

    /// Ends a doubtful session once no request runs in it: other callers may share it, and the
    /// upstream may still know it.
    fn end_when_unused(&self, session: &Session) {
        if !session.has_id {
            return;
        }
        let request = self.way.address.delete(session.headers.clone());
        let (way, on_behalf) = (Arc::clone(&self.way), session.on_behalf());
        let unused = session.ended();
        tokio::spawn(async move {
            unused.cancelled().await;
            way.send_in_background(request, on_behalf, ());
        });
    }

    /// Forwards a notification of a caller's session to its upstream session, if there is one.
    pub(super) fn tell_session(&self, id: &str, method: &str) {
        if let Some(session) = self.own.find(id) {
            self.way.post_in_background(&session, jsonrpc::notification(method, None), ());
        }
    }

    /// Ends the upstream session of a caller's session.
    pub(super) fn end_session(&self, id: &str) {
        if let Some(session) = self.own.remove(id) {
            self.end_in_background(&session);
        }
    }

    /// Leases a session for this request alone, if a legacy upstream may ask its caller.
    async fn lease_for(
        &self,
        outgoing: &Outgoing<'_>,
        caller: &OnBehalf,
    ) -> Result<Option<Lease<'_>>, Error> {
        let Some(request) = outgoing.request() else { return Ok(None) };
        for id in self.own.take_abandoned() {
            self.end_session(&id);
        }
        let is_legacy = self.session().await?.is_legacy();
        Ok(is_legacy.then(|| self.own.lend(request.context, caller)).flatten())
    }

    /// The session of a request, with the requested log level.
    async fn session_for(
        &self,
        outgoing: &Outgoing<'_>,
        (lease, caller): (Option<&Lease<'_>>, &OnBehalf),
    ) -> Result<Arc<Session>, Error> {
        let shared = self.session().await?;
        let Some(request) = outgoing.request() else { return Ok(shared) };
        let id = request.context.session.as_ref().or(lease.map(Lease::id)).cloned();
        // A request without a subject must not use the session of a caller.
        let in_its_name = || caller.as_ref().filter(|_| shared.is_legacy()).map(own::id_of);
        let session = match id.or_else(in_its_name) {
            Some(id) => {
                Box::pin(own::session(self, &shared, (&id, request.context, caller))).await?
            }
            None => shared,
        };
        if let Some(level) = request.context.log_level.as_deref().filter(|_| session.is_legacy()) {
            Box::pin(session::set_level(self, &session, level)).await;
        }
        Ok(session)
    }

    /// The shared session. Concurrent callers share one attempt to open it.
    async fn session(&self) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.session.load_full() {
            return Ok(session);
        }
        let attempt = Box::pin(async {
            let session = Arc::new(self.open().await?);
            self.own.reset();
            self.session.store(Some(Arc::clone(&session)));
            Ok(session)
        });
        self.handshakes.make(&self.way.server, || self.session.load_full(), attempt).await
    }

    /// Detects the era, and performs the handshake of a legacy upstream.
    async fn open(&self) -> Result<Session, Error> {
        let limit_ms = self.way.client.limits().list_timeout_ms;
        let opened = timeout(Duration::from_millis(limit_ms), async {
            let modern = Session::modern(&self.way.address.headers);
            let answer = self.exchange(&modern, &Outgoing::Discover, &[]).await;
            let about = answer.as_ref().ok().and_then(|answer| answer.reply.as_ref());
            let about = about.and_then(About::of_reply);
            match doubt::verdict(answer)? {
                Verdict::Modern => {
                    self.about.store(about.map(Arc::new));
                    Ok(modern)
                }
                Verdict::Legacy => {
                    let opened = self.initialize("{}", &None).await;
                    let (session, about) = self.named(opened).await?;
                    self.about.store(about.map(Arc::new));
                    Ok(session)
                }
                Verdict::Foreign => Err(Breach::NoCommonVersion.into()),
            }
        });
        opened.await.unwrap_or(Err(Error::Timeout { phase: Phase::Connect, after_ms: limit_ms }))
    }

    /// Replaces the status of a rejected `initialize` by the name of an unsupported transport.
    async fn named<T>(&self, opened: Result<T, Error>) -> Result<T, Error> {
        let is_rejected = matches!(opened,
            Err(Error::Protocol { what: Breach::Status(status) }) if (400..500).contains(&status));
        let headers = &self.way.address.headers;
        if is_rejected && http_sse::is_spoken(&self.way, headers, &None).await {
            return Err(Breach::HttpSse.into());
        }
        opened
    }

    /// Opens a session for a caller with these capabilities and this subject.
    async fn initialize(
        &self,
        capabilities: &str,
        on_behalf: &OnBehalf,
    ) -> Result<(Session, Option<About>), Error> {
        let before = Session::before_initialize(&self.way.address.headers);
        before.act_for(on_behalf);
        let initialize = Outgoing::Initialize { capabilities };
        let mut answer = self.exchange(&before, &initialize, &[]).await?;
        let id = answer.session_id.take();
        let reply = answer.into_reply()?;
        let about = About::of_reply(&reply);
        let version = handshake::after_initialize(reply)?;
        let session = Session::legacy(&self.way.address.headers, version, id);
        session.act_for(on_behalf);
        let request = self.way.address.post(session.headers.clone(), message::initialized());
        let status = answer::acknowledgement(self.way.send(request, on_behalf).await?).await?;
        if status.is_success() { Ok((session, about)) } else { Err(answer::no(status)) }
    }

    /// Sends one POST and reads its response. Dropping the future closes the connection, which
    /// cancels a modern request; a legacy request is cancelled with a notification.
    async fn exchange(
        &self,
        session: &Session,
        outgoing: &Outgoing<'_>,
        mirrored: Mirrored<'_>,
    ) -> Result<Answer, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let headers = request_headers(session, outgoing, mirrored);
        let body = Bytes::from(outgoing.write(id, session.era));
        let cancellable = outgoing.is_cancellable().then_some(id);
        let cancel = CancelOnDrop { way: &self.way, session, id: cancellable };
        let side = outgoing.request().and_then(|request| request.side);
        let _present = session.enter(side);
        let on_behalf = self.way.on_behalf(session, outgoing);
        let mut request = self.way.address.post(headers, body);
        if let Some(departure) = outgoing.departure() {
            request.body_mut().departs(departure);
        }
        let response = self.way.send(request, &on_behalf).await?;
        let limit_bytes = self.way.client.limits().response_bytes;
        let ear = Ear { way: &self.way, session, side };
        let request = outgoing.request();
        let buffered = request.and_then(|request| request.context.buffered.as_deref());
        let expected = Expected { id, limit_bytes, buffered };
        let answer = answer::read(response, expected, ear).await;
        cancel.disarm();
        answer
    }

    /// Receives the notifications of the upstream until the future is dropped.
    pub(super) async fn listen(&self, subscriptions: &Subscriptions) {
        listen::forever(self, subscriptions).await;
    }

    /// Ends the sessions at a legacy server, which may keep state until then.
    pub(super) async fn close(&self) {
        let sessions = self.own.drain().into_iter().chain(self.session.swap(None));
        let farewells = sessions.filter(|session| session.has_id).map(async |session| {
            let request = self.way.address.delete(session.headers.clone());
            self.way.send(request, &session.on_behalf()).await
        });
        let all = futures_util::future::join_all(farewells);
        let _ = timeout(Duration::from_secs(1), all).await;
    }
}

fn request_headers(
    session: &Session,
    outgoing: &Outgoing<'_>,
    mirrored: Mirrored<'_>,
) -> HeaderMap {
    let mut headers = session.headers.clone();
    if session.era == Era::Modern {
        headers.insert(header::METHOD, HeaderValue::from_static(outgoing.method()));
        if let Some(name) = outgoing.name() {
            headers.insert(header::NAME, header::encode(name));
        }
        headers.extend(mirrored.iter().cloned());
    }
    headers
}
