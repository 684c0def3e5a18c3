//! The MCP endpoint: `POST /mcp` for all protocol versions, and `GET` and `DELETE` for versions
//! with sessions.
//!
//! A request with stateless metadata is served without state; `initialize` opens a session. Callers
//! are authenticated first.

mod call;
mod capabilities;
pub mod era;
mod exchange;
mod feature;
pub mod held_requests;
mod incoming;
mod inputs;
mod legacy;
mod list;
mod media;
mod modern;
mod rejection;
pub(crate) mod render;
mod replay;
mod requester;
mod session;
mod stream;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{FromRequest, Request, State},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use bytes::Bytes;
use gateway_policy::{BufferReservation, CallerIdentity, QuotaKind, Quotas};
use gateway_protocol::{
    jsonrpc::{self, Id, Limits, Message, Notification},
    mcp::{Era, MODERN_VERSION, header},
};
use http::{
    HeaderValue, Method, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    request::Parts,
};
use tokio::{sync::Semaphore, time::timeout};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

pub use self::rejection::Rejection;
use self::{held_requests::HeldRequests, incoming::Incoming, replay::Replays, session::Sessions};
pub(crate) use self::{incoming::META_VERSION, legacy::LAST_EVENT_HEADER};
use crate::{
    audit::{self, REQUEST_ID},
    buffers, capacity,
    identity::authenticator::{Authentication, Authenticator, Credentials, METADATA},
    mcp::render::http::SizedResponse,
    pipeline::{Gateway, GatewayHandle},
};

/// Maximum time that browsers cache a preflight response.
const PREFLIGHT: Duration = Duration::from_mins(10);

/// The MCP surface. Clones share its state.
#[derive(Debug, Clone)]
pub struct Mcp {
    gateway: GatewayHandle,
    state: Arc<McpState>,
}

impl Mcp {
    /// Creates the endpoint of a gateway.
    pub fn new(gateway: GatewayHandle) -> Self {
        let state = gateway.read(McpState::new);
        Self { gateway, state: Arc::new(state) }
    }

    fn endpoint(&self) -> Arc<Endpoint> {
        Arc::new(Endpoint { gateway: self.gateway.current(), state: Arc::clone(&self.state) })
    }

    /// The routes of the endpoint.
    pub fn router(&self) -> Router {
        let methods = post(receive).get(legacy::listen).delete(legacy::delete);
        let mut router = Router::new().route(METADATA, get(metadata));
        for path in ["/mcp", "/mcp/"] {
            router = router
                .route(path, methods.clone())
                .route(&format!("{METADATA}{path}"), get(metadata));
        }
        router.with_state(self.clone()).layer(self.cors())
    }

    /// Allows pages of `allowedOrigins` to call and to read responses and errors. The list is read
    /// per request, because a reload can change it.
    fn cors(&self) -> CorsLayer {
        let gateway = self.gateway.clone();
        let is_allowed = move |origin: &HeaderValue, _: &Parts| {
            gateway.read(|gateway| gateway.settings().origins.is_listed(origin.as_bytes()))
        };
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(is_allowed))
            .allow_methods([Method::GET, Method::POST, Method::DELETE])
            // `Mcp-Param-*` headers have arbitrary names.
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers([
                header::SESSION_ID,
                header::PROTOCOL_VERSION,
                WWW_AUTHENTICATE,
                RETRY_AFTER,
                REQUEST_ID,
            ])
            .max_age(PREFLIGHT)
    }

    /// Waits until no request of a session is running.
    pub(crate) async fn drained(&self) {
        self.state.replays.drained().await;
    }

    /// Cancels the requests that continue without a connection.
    pub(crate) async fn shutdown(&self) {
        self.state.replays.shutdown().await;
    }

    /// Returns the endpoint for a complete request. If the configuration was reloaded while the
    /// body arrived, the new one must accept the request, too.
    async fn renewed(
        &self,
        (known, credentials): (Arc<Endpoint>, Credentials),
        parts: &mut Parts,
    ) -> Result<Arc<Endpoint>, Rejection> {
        let is_current = |current: &Gateway| std::ptr::eq(current, Arc::as_ptr(&known.gateway));
        if self.gateway.read(is_current) {
            return Ok(known);
        }
        let now = self.endpoint();
        now.gateway.settings().origins.check(parts)?;
        credentials.restore(&mut parts.headers);
        let authentication = now.gateway.authenticator().authenticate(parts).await;
        Authenticator::strip(&mut parts.headers);
        parts.extensions.insert(authentication?);
        Ok(now)
    }
}

/// Protocol state that survives configuration reloads.
#[derive(Debug)]
struct McpState {
    sessions: Sessions,
    /// Stateless requests that wait for input.
    held: Arc<HeldRequests>,
    /// Resumable streams of sessions.
    replays: Arc<Replays>,
    /// One permit per open event stream.
    streams: Arc<Semaphore>,
    most_streams: usize,
    stream_shares: Arc<Quotas>,
    task_watches: Arc<Quotas>,
}

impl McpState {
    fn new(gateway: &Gateway) -> Self {
        let most = gateway.settings().upstream.sessions;
        let most_streams = capacity::streams(most);
        Self {
            sessions: Sessions::new(most, Arc::clone(gateway.sealer())),
            held: Arc::new(HeldRequests::new(Arc::clone(gateway.sealer()))),
            replays: Arc::default(),
            streams: Arc::new(Semaphore::new(most_streams)),
            most_streams,
            stream_shares: Quotas::new(QuotaKind::Streams, most_streams),
            task_watches: stream::task_watches(),
        }
    }
}

/// The gateway and protocol state of one request.
#[derive(Debug)]
struct Endpoint {
    gateway: Arc<Gateway>,
    state: Arc<McpState>,
}

impl Endpoint {
    /// The endpoint that continues event streams after a reload.
    fn successor(&self) -> Option<Arc<Self>> {
        let gateway = Arc::clone(self.gateway.successor()?);
        Some(Arc::new(Self { gateway, state: Arc::clone(&self.state) }))
    }
}

/// An authenticated request with its credentials and the endpoint that serves it.
struct AuthenticatedRequest {
    endpoint: Arc<Endpoint>,
    parts: Parts,
    body: Body,
    credentials: Credentials,
}

impl FromRequest<Mcp> for AuthenticatedRequest {
    type Rejection = Response;

    async fn from_request(request: Request, mcp: &Mcp) -> Result<Self, Response> {
        let endpoint = mcp.endpoint();
        let (mut parts, body) = request.into_parts();
        match endpoint.gateway.authenticator().authenticate(&parts).await {
            Ok(authentication) => {
                parts.extensions.insert(authentication);
                let credentials = Authenticator::strip(&mut parts.headers);
                Ok(Self { endpoint, parts, body, credentials })
            }
            Err(refusal) => {
                discard(body, LINGER * endpoint.gateway.settings().request_bytes).await;
                Err(refuse(None, &refusal.into()).into_response())
            }
        }
    }
}

fn authentication(parts: &Parts) -> Authentication {
    let found = parts.extensions.get::<Authentication>().cloned();
    found.unwrap_or_else(|| Authentication::without_request(CallerIdentity::Anonymous))
}

/// The protected resource metadata (RFC 9728), which names the authorization servers.
async fn metadata(State(mcp): State<Mcp>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match mcp.gateway.read(|gateway| gateway.authenticator().metadata(&parts)) {
        Some(document) => ([(CONTENT_TYPE, "application/json")], document).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn receive(State(mcp): State<Mcp>, entered: AuthenticatedRequest) -> Response {
    let AuthenticatedRequest { endpoint, mut parts, body, credentials } = entered;
    let buffered = endpoint.gateway.open_buffer(&authentication(&parts));
    parts.extensions.insert(Arc::clone(&buffered));
    let whole = match admit(&endpoint, &parts, (body, &buffered)).await {
        Ok(body) => mcp.renewed((endpoint, credentials), &mut parts).await.map(|e| (e, body)),
        Err(rejection) => Err(rejection),
    };
    let (endpoint, body) = match whole {
        Ok(whole) => whole,
        Err(rejection) => return refuse(None, &rejection).into_response(),
    };
    let limits = Limits::with_max_bytes(endpoint.gateway.settings().request_bytes);
    let message = jsonrpc::parse(&body, limits);
    let id = match &message {
        Ok(Message::Request(request)) => Some(request.id),
        _ => None,
    };
    let answer = match message.map_err(Rejection::from) {
        Ok(Message::Request(request)) => match Incoming::read(&parts, &body, &request) {
            Ok(incoming) => dispatch(&endpoint, &incoming).await,
            Err(rejection) => Err(rejection),
        },
        Ok(Message::Notification(notification)) => {
            receive_notification(&endpoint, &parts, &notification)
        }
        Ok(Message::Response(response)) => receive_response(&endpoint, &parts, response),
        Err(rejection) => Err(rejection),
    };
    let answer = answer.unwrap_or_else(|rejection| refuse(id, &rejection)).into_response();
    buffers::reserved(answer, buffered)
}

/// Maximum size of a discarded body, as a multiple of the request limit.
const LINGER: usize = 4;
/// Maximum time of discarding if memory is exhausted.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Checks the headers, then reads the body.
async fn admit(
    endpoint: &Endpoint,
    parts: &Parts,
    (body, buffered): (Body, &BufferReservation),
) -> Result<Bytes, Rejection> {
    endpoint.gateway.settings().origins.check(parts)?;
    media::check_media(&parts.headers)?;
    let limit_bytes = endpoint.gateway.settings().request_bytes;
    if body.size_hint().lower() > limit_bytes as u64 {
        discard(body, LINGER * limit_bytes).await;
        return Err(Rejection::TooLarge { limit_bytes });
    }
    let read = read_whole(body, (limit_bytes, buffered)).await;
    let (rejection, rest) = match read {
        Ok(whole) => return Ok(whole),
        Err(failed) => failed,
    };
    if let Rejection::Buffers(_) = rejection {
        let _ = timeout(LINGER_TIME, discard(rest, LINGER * limit_bytes)).await;
    }
    Err(rejection)
}

/// Reads a body and reserves memory for each chunk. On failure, also returns the unread rest.
async fn read_whole(
    mut body: Body,
    (limit_bytes, buffered): (usize, &BufferReservation),
) -> Result<Bytes, (Rejection, Body)> {
    use http_body_util::BodyExt as _;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err((Rejection::Incomplete, body)) };
        let Ok(chunk) = frame.into_data() else { continue };
        if whole.len() + chunk.len() > limit_bytes {
            return Err((Rejection::TooLarge { limit_bytes }, body));
        }
        if let Err(full) = buffered.reserve(chunk.len()) {
            return Err((Rejection::Buffers(full), body));
        }
        if whole.is_empty() {
            // Most requests are one chunk, which needs no copy.
            if body.is_end_stream() {
                return Ok(chunk);
            }
            let announced = usize::try_from(body.size_hint().lower()).unwrap_or_default();
            whole.reserve_exact(chunk.len() + announced.min(limit_bytes));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// Reads the rest of a rejected body within limits: a client that is still writing would see a
/// reset connection instead of the response.
async fn discard(body: Body, most_bytes: usize) {
    use http_body_util::BodyExt as _;
    if body.size_hint().lower() > most_bytes as u64 {
        return;
    }
    let mut rest = http_body_util::Limited::new(body, most_bytes);
    while let Some(Ok(_)) = rest.frame().await {}
}

async fn dispatch(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
) -> Result<SizedResponse, Rejection> {
    if incoming.method != "tools/call" && endpoint.gateway.authenticator().has_scopes() {
        // Lists and sessions have no operation whose scopes the pipeline could check.
        let method = (incoming.method, None);
        let caller = authentication(incoming.parts);
        endpoint.gateway.authenticator().check_scopes(&caller, method, &BTreeSet::new())?;
    }
    match incoming.era() {
        Era::Modern => modern::serve(endpoint, incoming).await,
        Era::Legacy => legacy::serve(endpoint, incoming).await,
    }
}

/// Protocol version 2026-07-28 defines no notifications from clients; they are ignored.
fn receive_notification(
    endpoint: &Endpoint,
    parts: &Parts,
    notification: &Notification<'_>,
) -> Result<SizedResponse, Rejection> {
    match era::of_header(&parts.headers)? {
        Some(MODERN_VERSION) => Ok(render::http::accepted()),
        _ => legacy::receive_notification(endpoint, parts, notification),
    }
}

/// Only clients with sessions receive requests.
fn receive_response(
    endpoint: &Endpoint,
    parts: &Parts,
    response: jsonrpc::Response<'_>,
) -> Result<SizedResponse, Rejection> {
    match era::of_header(&parts.headers)? {
        Some(MODERN_VERSION) => Err(Rejection::ClientResponse),
        _ => legacy::receive_response(endpoint, parts, response),
    }
}

fn refuse(id: Option<Id<'_>>, rejection: &Rejection) -> SizedResponse {
    tracing::debug!(reason = rejection.as_str(), error = %rejection, "request rejected");
    audit::count_rejection(rejection.as_str());
    render::rejection(id, rejection)
}
