//! MCP over Streamable HTTP in both eras: era detection, sessions, and one request per POST.
//!
//! A legacy client with a session gets its own upstream session, if the upstream has sessions,
//! because such servers may keep state in them. All other requests share one session. The HTTP+SSE
//! transport of 2024 is recognized and rejected by name. Redirects are not followed, and proxies
//! are not used.

mod address_filter;
mod answer;
mod auth;
mod caller_sessions;
mod cancel;
mod client;
mod connector;
mod headers;
mod health_check;
mod http_sse;
mod listen;
mod message_sink;
mod pool;
mod renegotiation;
mod resume;
mod send_error;
mod session;
mod spare_headers;
mod transport;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ::http::{HeaderMap, HeaderName, HeaderValue};
use arc_swap::ArcSwapOption;
use gateway_protocol::{
    jsonrpc,
    mcp::{Era, header},
    trace_context,
};
use tokio::time::timeout;

pub use self::{address_filter::BlockedAddress, client::Client, connector::Connector};
use self::{
    answer::{Expected, PostResponse},
    caller_sessions::{CallerSessions, Lease},
    cancel::CancelOnDrop,
    message_sink::MessageSink,
    session::Session,
};
pub(super) use self::{
    answer::{
        WholeBody, is_event_stream, is_media_type, is_refusal, next_frame, read_rest, read_whole,
        status_error,
    },
    client::{Address, InvalidAddress},
    transport::{Subject, Transport},
};
use super::{
    error::{Error, Phase, ProtocolViolation},
    events::EventPublisher,
    handshake::{self, Negotiation, UpstreamInfo},
    message::{self, Outgoing},
    reply::Reply,
    routing::TargetId,
    single_flight::SingleFlight,
    subscriptions::Subscriptions,
};
use crate::TransportConfig;

/// One upstream over HTTP.
#[derive(Debug)]
pub(super) struct HttpLink {
    transport: Arc<Transport>,
    session: ArcSwapOption<Session>,
    own: CallerSessions,
    about: ArcSwapOption<UpstreamInfo>,
    next_id: AtomicU64,
    handshakes: SingleFlight,
}

/// Usual number of headers that a request adds to those of its session: method, name, trace, host,
/// length and credentials. The map does not grow for them.
const ADDED_HEADERS: usize = 6;

/// The headers that mirror arguments of a request.
type Mirrored<'a> = &'a [(HeaderName, HeaderValue)];

impl HttpLink {
    /// Creates a link without connecting. Must be called inside a Tokio runtime.
    pub(super) fn new(
        publisher: Arc<EventPublisher>,
        server: TargetId,
        transport: &TransportConfig,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        let transport = Transport::new(server, publisher, transport, shared)?;
        Ok(Self {
            own: CallerSessions::new(transport.client.limits().sessions),
            transport: Arc::new(transport),
            session: ArcSwapOption::empty(),
            about: ArcSwapOption::empty(),
            next_id: AtomicU64::new(1),
            handshakes: SingleFlight::default(),
        })
    }

    /// The era of the upstream, if it is known.
    pub(super) fn era(&self) -> Option<Era> {
        self.session.load().as_deref().map(|session| session.era)
    }

    /// The self-description of the upstream.
    pub(super) fn about(&self) -> Option<Arc<UpstreamInfo>> {
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
        let caller = self.transport.caller(outgoing)?;
        let before = |error: Error| error.before_request(&self.transport.server);
        let shared = self.session().await.map_err(before)?;
        let mut lease = self.lease_for(&shared, outgoing, &caller);
        let opened = self.session_for(shared, outgoing, (lease.as_ref(), &caller)).await;
        let session = opened.map_err(before)?;
        let answer = self.exchange(&session, outgoing, mirrored).await;
        if let (Some(lease), Ok(_)) = (&mut lease, &answer) {
            lease.over();
        }
        if renegotiation::must_renegotiate(session.era, outgoing, &answer) {
            let is_gone = session.is_gone(&answer);
            if self.forget(&session) && answer.is_ok() && !is_gone {
                self.end_when_unused(&session);
            }
            if is_gone {
                let again = async {
                    let shared = self.session().await.map_err(before)?;
                    let lease = (lease.as_ref(), &caller);
                    let opened = self.session_for(shared, outgoing, lease).await;
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
            let request = self.transport.address.delete(session.headers.clone());
            self.transport.send_in_background(request, session.subject(), ());
        }
    }

    /// Ends a doubtful session once no request runs in it: other callers may share it, and the
    /// upstream may still know it.
    fn end_when_unused(&self, session: &Session) {
        if !session.has_id {
            return;
        }
        let request = self.transport.address.delete(session.headers.clone());
        let (transport, subject) = (Arc::clone(&self.transport), session.subject());
        let unused = session.ended();
        tokio::spawn(async move {
            unused.cancelled().await;
            transport.send_in_background(request, subject, ());
        });
    }

    /// Forwards a notification of a caller's session to its upstream session, if there is one.
    pub(super) fn notify_session(&self, id: &str, method: &str) {
        if let Some(session) = self.own.find(id) {
            self.transport.post_in_background(&session, jsonrpc::notification(method, None), ());
        }
    }

    /// Ends the upstream session of a caller's session.
    pub(super) fn end_session(&self, id: &str) {
        if let Some(session) = self.own.remove(id) {
            self.end_in_background(&session);
        }
    }

    /// Leases a session for this request alone, if a legacy upstream may ask its caller.
    fn lease_for(
        &self,
        shared: &Session,
        outgoing: &Outgoing<'_>,
        caller: &Subject,
    ) -> Option<Lease<'_>> {
        let request = outgoing.request()?;
        for id in self.own.take_abandoned() {
            self.end_session(&id);
        }
        shared.is_legacy().then(|| self.own.lend(request.context, caller)).flatten()
    }

    /// The session of a request, with the requested log level.
    async fn session_for(
        &self,
        shared: Arc<Session>,
        outgoing: &Outgoing<'_>,
        (lease, caller): (Option<&Lease<'_>>, &Subject),
    ) -> Result<Arc<Session>, Error> {
        let Some(request) = outgoing.request() else { return Ok(shared) };
        let id = request.context.session.as_ref().or(lease.map(Lease::id)).cloned();
        // A request without a subject must not use the session of a caller.
        let in_its_name =
            || caller.as_ref().filter(|_| shared.is_legacy()).map(caller_sessions::id_of);
        let session = match id.or_else(in_its_name) {
            Some(id) => {
                Box::pin(caller_sessions::session(self, &shared, (&id, request.context, caller)))
                    .await?
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
        self.handshakes.make(&self.transport.server, || self.session.load_full(), attempt).await
    }

    /// Detects the era, and performs the handshake of a legacy upstream.
    async fn open(&self) -> Result<Session, Error> {
        let limit_ms = self.transport.client.limits().list_timeout_ms;
        let opened = timeout(Duration::from_millis(limit_ms), async {
            let modern = Session::modern(&self.transport.address.headers);
            let answer = self.exchange(&modern, &Outgoing::Discover, &[]).await;
            let about = answer.as_ref().ok().and_then(|answer| answer.reply.as_ref());
            let about = about.and_then(UpstreamInfo::of_reply);
            match renegotiation::verdict(answer)? {
                Negotiation::Modern => {
                    self.about.store(about.map(Arc::new));
                    Ok(modern)
                }
                Negotiation::Legacy => {
                    let opened = self.initialize("{}", &None).await;
                    let (session, about) = self.named(opened).await?;
                    self.about.store(about.map(Arc::new));
                    Ok(session)
                }
                Negotiation::Foreign => Err(ProtocolViolation::NoCommonVersion.into()),
            }
        });
        opened.await.unwrap_or(Err(Error::Timeout { phase: Phase::Handshake, after_ms: limit_ms }))
    }

    /// Replaces the status of a rejected `initialize` by the name of an unsupported transport.
    async fn named<T>(&self, opened: Result<T, Error>) -> Result<T, Error> {
        let is_rejected = matches!(opened,
            Err(Error::Protocol { what: ProtocolViolation::Status(status) }) if (400..500).contains(&status));
        let headers = &self.transport.address.headers;
        if is_rejected && http_sse::is_spoken(&self.transport, headers, &None).await {
            return Err(ProtocolViolation::HttpSse.into());
        }
        opened
    }

    /// Opens a session for a caller with these capabilities and this subject.
    async fn initialize(
        &self,
        capabilities: &str,
        subject: &Subject,
    ) -> Result<(Session, Option<UpstreamInfo>), Error> {
        let before = Session::before_initialize(&self.transport.address.headers);
        before.set_subject(subject);
        let initialize = Outgoing::Initialize { capabilities };
        let mut answer = self.exchange(&before, &initialize, &[]).await?;
        let id = answer.session_id.take();
        let reply = answer.into_reply()?;
        let about = UpstreamInfo::of_reply(&reply);
        let version = handshake::after_initialize(reply)?;
        let session = Session::legacy(&self.transport.address.headers, version, id);
        session.set_subject(subject);
        let request = self.transport.address.post(session.headers.clone(), message::initialized());
        let status = answer::acknowledgement(self.transport.send(request, subject).await?).await?;
        if status.is_success() { Ok((session, about)) } else { Err(answer::status_error(status)) }
    }

    /// Sends one POST and reads its response. Dropping the future closes the connection, which
    /// cancels a modern request; a legacy request is cancelled with a notification.
    async fn exchange(
        &self,
        session: &Session,
        outgoing: &Outgoing<'_>,
        mirrored: Mirrored<'_>,
    ) -> Result<PostResponse, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let headers = request_headers(session, outgoing, mirrored);
        let body = outgoing.encode(id, session.era);
        let cancellable = outgoing.is_cancellable().then_some(id);
        let cancel = CancelOnDrop { transport: &self.transport, session, id: cancellable };
        let channel = outgoing.request().and_then(|request| request.channel);
        let _present = session.enter(channel);
        let subject = self.transport.subject(session, outgoing);
        let mut request = self.transport.address.post(headers, body);
        if let Some(send_state) = outgoing.send_state() {
            request.body_mut().track(send_state);
        }
        let response = self.transport.send(request, &subject).await?;
        let limit_bytes = self.transport.client.limits().response_bytes;
        let sink = MessageSink { transport: &self.transport, session, channel };
        let request = outgoing.request();
        let buffered = request.and_then(|request| request.context.buffered.as_deref());
        let expected = Expected { id, limit_bytes, buffered };
        let answer = answer::read(response, expected, sink).await;
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
            let request = self.transport.address.delete(session.headers.clone());
            self.transport.send(request, &session.subject()).await
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
    let own = &session.headers;
    let mut headers = spare_headers::take(own.len() + mirrored.len() + ADDED_HEADERS);
    headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    if session.era == Era::Modern {
        headers.insert(header::METHOD, HeaderValue::from_static(outgoing.method()));
        if let Some(name) = outgoing.name() {
            headers.insert(header::NAME, header::encode(name));
        }
        if let Some(request) = outgoing.request() {
            headers.extend(trace_context::headers(request.trace));
        }
        headers.extend(mirrored.iter().cloned());
    }
    headers
}
