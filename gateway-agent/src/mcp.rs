//! The MCP endpoint: `POST /mcp` for all protocol versions, and `GET` and `DELETE` for versions
//! with sessions.
//!
//! A request with stateless metadata is served without state; `initialize` opens a session. Callers
//! are authenticated first.

mod agent_execute;
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

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{FromRequest, Request, State},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use gateway_policy::Quotas;
use gateway_protocol::{
    jsonrpc::{self, Id, Limits, Message, Notification},
    mcp::{Era, MODERN_VERSION, header},
};
use http::{
    Method, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};

pub use self::rejection::Rejection;
pub(crate) use self::{
    feature::{FeatureList, List},
    incoming::META_VERSION,
    legacy::LAST_EVENT_HEADER,
};
use self::{held_requests::HeldRequests, incoming::Incoming, replay::Replays, session::Sessions};
use crate::{
    audit::{self, REQUEST_ID},
    buffers,
    identity::{authenticator::METADATA, sender::RequestHead},
    ingress::{CompleteRequest, EnteredRequest, PageCors, authentication, check_origin},
    mcp::render::http::SizedResponse,
    pipeline::{Gateway, GatewayHandle},
};

/// The paths of the endpoint.
const PATHS: [&str; 2] = ["/mcp", "/mcp/"];

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

    fn endpoint(&self, gateway: Arc<Gateway>) -> Arc<Endpoint> {
        Arc::new(Endpoint { gateway, state: Arc::clone(&self.state) })
    }

    /// The routes of the endpoint.
    pub fn router(&self) -> Router {
        let methods = post(receive).get(legacy::listen).delete(legacy::delete);
        let mut router = Router::new().route(METADATA, get(metadata));
        for path in PATHS {
            router = router
                .route(path, methods.clone())
                .route(&format!("{METADATA}{path}"), get(metadata));
        }
        router.with_state(self.clone()).layer(self.cors())
    }

    fn cors(&self) -> PageCors {
        let methods = [Method::GET, Method::POST, Method::DELETE];
        let exposed = [
            header::SESSION_ID,
            header::PROTOCOL_VERSION,
            WWW_AUTHENTICATE,
            RETRY_AFTER,
            REQUEST_ID,
        ];
        PageCors::new(self.gateway.clone(), &methods, &exposed)
    }

    /// Waits until no request of a session is running.
    pub(crate) async fn drained(&self) {
        self.state.replays.drained().await;
    }

    /// Cancels the requests that continue without a connection.
    pub(crate) async fn shutdown(&self) {
        self.state.replays.shutdown().await;
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
    task_watches: Arc<Quotas>,
}

impl McpState {
    fn new(gateway: &Gateway) -> Self {
        let most = gateway.settings().upstream.sessions;
        Self {
            sessions: Sessions::new(most, Arc::clone(gateway.sealer())),
            held: Arc::new(HeldRequests::new(Arc::clone(gateway.sealer()))),
            replays: Arc::default(),
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

/// An authenticated request and the endpoint that serves it.
struct AuthenticatedRequest {
    endpoint: Arc<Endpoint>,
    parts: RequestHead,
}

impl FromRequest<Mcp> for AuthenticatedRequest {
    type Rejection = Response;

    async fn from_request(request: Request, mcp: &Mcp) -> Result<Self, Response> {
        match EnteredRequest::authenticate(&mcp.gateway, request).await {
            Ok(EnteredRequest { gateway, parts, .. }) => {
                Ok(Self { endpoint: mcp.endpoint(gateway), parts })
            }
            Err(error) => Err(refuse(None, &error.into()).into_response()),
        }
    }
}

/// The protected resource metadata (RFC 9728), which names the authorization servers.
async fn metadata(State(mcp): State<Mcp>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match mcp.gateway.read(|gateway| gateway.authenticator().metadata(&parts)) {
        Some(document) => ([(CONTENT_TYPE, "application/json")], document).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Whether a path is one of the endpoint.
pub(crate) fn has_path(path: &str) -> bool {
    PATHS.contains(&path)
}

/// Serves a `POST` of the endpoint.
pub(crate) async fn receive(State(mcp): State<Mcp>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    receive_from(mcp, parts.into(), body).await
}

/// Like [`receive`], for a request that bypasses the router.
pub(crate) async fn receive_from(mcp: Mcp, parts: RequestHead, body: Body) -> Response {
    let CompleteRequest { gateway, parts, body, buffered } = match read(&mcp, parts, body).await {
        Ok(complete) => complete,
        Err(rejection) => return refuse(None, &rejection).into_response(),
    };
    let endpoint = mcp.endpoint(gateway);
    let limits = Limits::with_max_bytes(endpoint.gateway.settings().request_bytes);
    let message = jsonrpc::parse(&body, limits);
    let id = match &message {
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_) | Message::Response(_)) => None,
        Err(_) => jsonrpc::readable_id(&body),
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
    let answer = answer.unwrap_or_else(|rejection| refuse(id, &rejection));
    buffers::reserved(answer.in_map_of_request(parts.into_headers()), buffered)
}

/// Checks the headers, then reads the body.
async fn read(mcp: &Mcp, parts: RequestHead, body: Body) -> Result<CompleteRequest, Rejection> {
    let entered = EnteredRequest::enter(&mcp.gateway, parts, body).await?;
    check_origin(&entered.gateway, &entered.parts)?;
    media::check_media(&entered.parts.headers)?;
    Ok(entered.read(&mcp.gateway).await?)
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
    parts: &RequestHead,
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
    parts: &RequestHead,
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
