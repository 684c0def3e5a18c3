//! `SyncService`: streams of changes.
//!
//! Responses of `Sync` are framed in `frame.rs` instead of by tonic.

mod frame;

use std::sync::Arc;

use axum::{Router, body::Body, extract::State, routing::post};
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue};
use prost::Message as _;
use registry_core::{Digest, Revision, Scope, chain::Position, follower::Nack, limits};
use registry_proto::{
    codec::Codec,
    convert,
    v1::{self, sync_request},
};
use tokio::time::timeout;
use tonic::{
    Request, Status, Streaming,
    codec::{Codec as _, CompressionEncoding},
    server::Grpc,
};
use tower::service_fn;

use self::frame::SyncBody;
use super::{
    access,
    deadline::{Deadline, SYNC},
    direct, gateways,
    invalid::{
        self, CACHE_PROBLEM_BYTES, GATEWAY_BYTES, InvalidRequest, NACK_BYTES, NACK_DIAGNOSTICS,
    },
};
use crate::{
    access::Principal,
    app::App,
    feed::{Error, Hello, PolicySupport, Signal},
    peer::Peer,
};

/// The maximum size of a message from a follower; a Nack with findings is the largest.
const REQUEST_BYTES: usize = 256 << 10;

/// The path of `ListGateways`.
const LIST_GATEWAYS: &str = "/registry.v1.SyncService/ListGateways";

/// The routes of the service.
pub(super) fn routes(app: Arc<App>) -> Router {
    Router::new().route(SYNC, post(sync)).route(LIST_GATEWAYS, post(list_gateways)).with_state(app)
}

async fn list_gateways(
    State(app): State<Arc<App>>,
    request: http::Request<Body>,
) -> http::Response<tonic::body::Body> {
    let list = service_fn(|request: Request<v1::ListGatewaysRequest>| {
        let app = app.clone();
        async move { gateways::list(&app, request.into_inner()).await }
    });
    let codec = Codec::<v1::ListGatewaysResponse, _>::default();
    let grpc = Grpc::new(codec).accept_compressed(CompressionEncoding::Gzip);
    grpc.max_decoding_message_size(REQUEST_BYTES).unary(list, request).await
}

async fn sync(State(app): State<Arc<App>>, request: http::Request<Body>) -> http::Response<Body> {
    let (request, is_direct) = direct::attach_request(request);
    match follow(&app, request).await {
        Ok(body) if is_direct => direct::detach_response(frame::response(body)),
        Ok(body) => frame::response(body).map(Body::new),
        Err(status) => status.into_http(),
    }
}

async fn follow(app: &App, request: http::Request<tonic::body::Body>) -> Result<SyncBody, Status> {
    let encoding = read_encoding(request.headers())?;
    let request = Request::from_http(request);
    let principal = access::principal(&request)?;
    let (caller, access) = (principal.clone(), app.access.clone());
    let ended = async move { access.ended(&caller).await };
    let deadline = request.extensions().get::<Deadline>().copied();
    let counted = request.extensions().get::<Peer>().map(|peer| peer.followers.add());
    let decoder = Codec::<v1::SyncResponse, v1::SyncRequest>::default().decoder();
    let body = request.into_inner();
    let mut inbound = Streaming::new_request(decoder, body, encoding, Some(REQUEST_BYTES));
    let first = timeout(app.feed.hello_timeout(), inbound.message());
    let first = first.await.map_err(|_| InvalidRequest::Missing("hello"))??;
    let hello = read_hello(first, &principal)?;
    let keeps_scope = hello.history || hello.signatures;
    let signals = inbound.map(move |message| {
        let signal = read_signal(message.map_err(|_| Error::Disconnected)?)?;
        if keeps_scope && matches!(signal, Signal::Scope(_)) {
            let problem = "scope: only followers in mode GATEWAY or OBSERVER can change it";
            return Err(Error::InvalidMessage(problem.to_owned()));
        }
        Ok(signal)
    });
    let messages = app.feed.clone().follow(hello, signals, ended).await?;
    Ok(SyncBody::new(messages, deadline, counted))
}

/// The compression of the follower's messages.
fn read_encoding(headers: &HeaderMap) -> Result<Option<CompressionEncoding>, InvalidRequest> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(None),
        Some(b"gzip") => Ok(Some(CompressionEncoding::Gzip)),
        Some(_) => {
            let problem = "only gzip and identity are supported".to_owned();
            Err(InvalidRequest::Field { field: "grpc-encoding", problem })
        }
    }
}

fn read_hello(
    first: Option<v1::SyncRequest>,
    principal: &Principal,
) -> Result<Hello, InvalidRequest> {
    let message = first.and_then(|first| first.message);
    let Some(sync_request::Message::Hello(hello)) = message else {
        return Err(invalid::field("hello", &"the first message must be a ClientHello"));
    };
    let v1::ClientHello {
        gateway,
        gateway_version,
        mode,
        scope,
        position,
        content_digest,
        capabilities,
    } = hello;
    let scope = scope.map_or(Ok(Scope::Everything), read_scope)?;
    let wrong = |field, problem: &str| InvalidRequest::Field { field, problem: problem.to_owned() };
    let Ok(mode) = v1::FollowMode::try_from(mode) else {
        return Err(wrong("mode", "unknown number"));
    };
    match (mode, scope == Scope::Everything) {
        (v1::FollowMode::Relay, false) => return Err(wrong("mode", "RELAY excludes a scope")),
        (v1::FollowMode::Signatures, true) => {
            return Err(wrong("mode", "SIGNATURES requires a scope"));
        }
        _ => {}
    }
    Ok(Hello {
        gateway: invalid::line("gateway", gateway, GATEWAY_BYTES)?,
        gateway_version: invalid::line("gateway_version", gateway_version, GATEWAY_BYTES)?,
        principal: principal.name.clone(),
        caller: principal.scope_quota_key(),
        address: principal.address,
        scope,
        is_observer: matches!(mode, v1::FollowMode::Observer | v1::FollowMode::Signatures),
        position: position.map(Position::try_from).transpose()?,
        content: read_content(&content_digest)?,
        history: mode == v1::FollowMode::Relay,
        signatures: mode == v1::FollowMode::Signatures,
        // Numbers of newer versions are ignored.
        policies: if capabilities.contains(&v1::FollowerCapability::Policies.into()) {
            PolicySupport::Enforced
        } else {
            PolicySupport::Missing
        },
    })
}

fn read_scope(scope: v1::FollowScope) -> Result<Scope, InvalidRequest> {
    convert::scope(scope)
        .map_err(|e| InvalidRequest::Field { field: "scope", problem: e.to_string() })
}

fn read_content(text: &str) -> Result<Option<Digest>, InvalidRequest> {
    let text = Some(text).filter(|text| !text.is_empty());
    text.map(Digest::parse)
        .transpose()
        .map_err(|e| InvalidRequest::Field { field: "content_digest", problem: e.to_string() })
}

fn read_signal(request: v1::SyncRequest) -> Result<Signal, Error> {
    let unreadable = |what: &str| Error::InvalidMessage(what.to_owned());
    match request.message.ok_or_else(|| unreadable("the message is empty"))? {
        sync_request::Message::Hello(_) => {
            Err(unreadable("hello: only the first message can be a hello"))
        }
        sync_request::Message::Ack(ack) => read_ack(ack),
        sync_request::Message::Scope(scope) => {
            let scope = read_scope(scope).map_err(|e| Error::InvalidMessage(e.to_string()))?;
            Ok(Signal::Scope(scope))
        }
        sync_request::Message::Nack(nack) => {
            let v1::Nack { revision, message, diagnostics } = nack;
            let message = invalid::text("message", message, limits::MESSAGE_BYTES)
                .map_err(|e| Error::InvalidMessage(e.to_string()))?;
            // Findings with codes of newer gateways are dropped.
            let mut bytes = 0;
            let known = diagnostics.into_iter().take(NACK_DIAGNOSTICS).take_while(|found| {
                bytes += found.encoded_len();
                bytes <= NACK_BYTES
            });
            let diagnostics = known.filter_map(|found| found.try_into().ok()).collect();
            Ok(Signal::Nack(Nack { revision: Revision(revision), message, diagnostics }))
        }
    }
}

fn read_ack(ack: v1::Ack) -> Result<Signal, Error> {
    let v1::Ack { applied_revision, persisted_revision, cache_state, cache_problem } = ack;
    let problem = invalid::text("cache_problem", cache_problem, CACHE_PROBLEM_BYTES)
        .map_err(|e| Error::InvalidMessage(e.to_string()))?;
    Ok(Signal::Ack {
        applied: Revision(applied_revision),
        persisted: Revision(persisted_revision),
        cache: convert::cache_state(cache_state, problem),
    })
}
