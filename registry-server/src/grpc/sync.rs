//! `SyncService`: follow the registry.
//!
//! Deliberately absent: what comes next on a stream; the feed knows.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use prost::Message as _;
use registry_core::{Digest, Revision, Scope, limits};
use registry_proto::{
    convert::{self, CacheState, Nack, Position},
    v1::{self, sync_request, sync_response, sync_service_server::SyncService},
};
use tokio::time::{sleep_until, timeout};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Service, access,
    deadline::Deadline,
    gateways,
    invalid::{
        self, CACHE_PROBLEM_BYTES, GATEWAY_BYTES, InvalidRequest, NACK_BYTES, NACK_DIAGNOSTICS,
    },
};
use crate::{
    access::Principal,
    feed::{Error, Hello, Message, Signal, Step},
};

type Responses = Pin<Box<dyn Stream<Item = Result<v1::SyncResponse, Status>> + Send>>;

#[tonic::async_trait]
impl SyncService for Service {
    type SyncStream = Responses;

    async fn sync(
        &self,
        request: Request<Streaming<v1::SyncRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let principal = access::principal(&request)?;
        let (caller, access) = (principal.clone(), self.app.access.clone());
        let ended = async move { access.ended(&caller).await };
        let deadline = request.extensions().get::<Deadline>().copied();
        let mut inbound = request.into_inner();
        let first = timeout(self.app.feed.hello_timeout(), inbound.message());
        let first = first.await.map_err(|_| InvalidRequest::Missing("hello"))??;
        let hello = read_hello(first, &principal)?;
        let signals = inbound.map(|message| read_signal(message.map_err(|_| Error::Gone)?));
        let messages = self.app.feed.clone().follow(hello, signals, ended).await?;
        let responses = messages.map(|message| Ok(encode(message?)));
        Ok(Response::new(match deadline {
            None => Box::pin(responses),
            Some(Deadline(at)) => {
                let last = stream::once(async { Err(Error::Deadline.into()) });
                Box::pin(responses.take_until(sleep_until(at)).chain(last))
            }
        }))
    }

    async fn list_gateways(
        &self,
        request: Request<v1::ListGatewaysRequest>,
    ) -> Result<Response<v1::ListGatewaysResponse>, Status> {
        gateways::list(&self.app, request.into_inner()).await
    }
}

fn read_hello(
    first: Option<v1::SyncRequest>,
    principal: &Principal,
) -> Result<Hello, InvalidRequest> {
    let message = first.and_then(|first| first.message);
    let Some(sync_request::Message::Hello(hello)) = message else {
        return Err(InvalidRequest::Missing("hello, which must be the first message,"));
    };
    let v1::Hello { gateway, gateway_version, scope, position, content, observer } = hello;
    Ok(Hello {
        gateway: invalid::line("gateway", gateway, GATEWAY_BYTES)?,
        gateway_version: invalid::line("gateway_version", gateway_version, GATEWAY_BYTES)?,
        principal: principal.name.clone(),
        address: principal.address,
        scope: scope.map_or(Ok(Scope::Everything), read_scope)?,
        is_observer: observer,
        position: position.map(Position::try_from).transpose()?,
        content: (!content.is_empty()).then(|| read_content(&content)).transpose()?,
    })
}

fn read_scope(scope: v1::Scope) -> Result<Scope, InvalidRequest> {
    convert::scope(scope)
        .map_err(|e| InvalidRequest::Field { field: "scope", problem: e.to_string() })
}

fn read_content(bytes: &[u8]) -> Result<Digest, InvalidRequest> {
    convert::digest(bytes)
        .map_err(|e| InvalidRequest::Field { field: "content", problem: e.to_string() })
}

fn read_signal(request: v1::SyncRequest) -> Result<Signal, Error> {
    let unreadable = |what: &str| Error::Unreadable(what.to_owned());
    match request.message.ok_or_else(|| unreadable("it is empty"))? {
        sync_request::Message::Hello(_) => Err(unreadable("hello comes first and only once")),
        sync_request::Message::Ack(ack) => read_ack(ack),
        sync_request::Message::Scope(scope) => {
            let scope = read_scope(scope).map_err(|e| Error::Unreadable(e.to_string()))?;
            Ok(Signal::Scope(scope))
        }
        sync_request::Message::Nack(nack) => {
            let v1::Nack { revision, message, diagnostics } = nack;
            let message = invalid::text("message", message, limits::MESSAGE_BYTES)
                .map_err(|e| Error::Unreadable(e.to_string()))?;
            // A newer gateway may have codes that this server does not know; it keeps the others.
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
        .map_err(|e| Error::Unreadable(e.to_string()))?;
    Ok(Signal::Ack {
        applied: Revision(applied_revision),
        persisted: Revision(persisted_revision),
        cache: CacheState::read(cache_state, problem),
    })
}

fn encode(message: Message) -> v1::SyncResponse {
    use sync_response::Message as Wire;
    let message = match message {
        Message::SnapshotBegin { position, scope, entities, settings, compacted } => {
            Wire::SnapshotBegin(v1::SnapshotBegin {
                position: Some((&position).into()),
                scope: (*scope != Scope::Everything).then(|| (&*scope).into()),
                entities: entities as u64,
                settings: settings as u64,
                oldest_revision: compacted.map_or(0, |oldest| oldest.0),
            })
        }
        Message::SnapshotChunk(records) => Wire::SnapshotChunk(v1::SnapshotChunk {
            entities: records.iter().map(|record| (&**record).into()).collect(),
            settings: Vec::new(),
        }),
        Message::SnapshotSettings(settings) => Wire::SnapshotChunk(v1::SnapshotChunk {
            entities: Vec::new(),
            settings: settings.iter().map(|(on, set)| convert::setting_state(on, set)).collect(),
        }),
        Message::SnapshotEnd(digest) => {
            let digest = bytes::Bytes::copy_from_slice(digest.as_bytes());
            Wire::SnapshotEnd(v1::SnapshotEnd { digest })
        }
        Message::Delta(commit) => Wire::Delta((&*commit).into()),
        Message::Step(step) => Wire::Step(encode_step(&step)),
        Message::Progress(position) => Wire::Progress((&position).into()),
    };
    v1::SyncResponse { message: Some(message), attestation: None }
}

fn encode_step(step: &Step) -> v1::Step {
    v1::Step {
        position: Some((&step.position()).into()),
        entities: step.put.iter().map(|record| (&**record).into()).collect(),
        removed: step.removed.iter().map(ToString::to_string).collect(),
        content: bytes::Bytes::copy_from_slice(step.content().as_bytes()),
        scope: Some(step.scope().into()),
    }
}
