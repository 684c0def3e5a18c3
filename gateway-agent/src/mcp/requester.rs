//! The facts about a request's sender that outlive the request.

use std::sync::Arc;

use gateway_protocol::{
    jsonrpc::Id,
    mcp::{Capabilities, Era, HOPS, LOG_LEVELS, Method},
};
use gateway_upstream::RequestContext;
use serde_json::value::RawValue;

use super::{
    Rejection,
    era::LEGACY,
    exchange::{PendingResult, ResponseContext},
    incoming::{Incoming, META_CAPABILITIES},
    inputs,
    session::{self, Session},
};
use crate::{identity::authenticator::Authentication, mcp::render};

const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS: &str = "progressToken";

#[derive(Debug, Clone)]
pub(super) struct Requester {
    pub(super) era: Era,
    pub(super) caller: Authentication,
    /// Only before 2026-07-28.
    pub(super) session: Option<Arc<Session>>,
    /// Whether the client supports tasks of 2025-11-25.
    pub(super) takes_tasks: bool,
}

/// How messages and questions reach the sender of a request.
pub(super) fn response_context(
    incoming: &Incoming<'_>,
    requester: &Requester,
    context: &RequestContext,
    (method, subject): (Method, Arc<str>),
) -> ResponseContext {
    let buffered = incoming.buffered();
    let level = context.log_level.as_deref().map(|raw| raw.get().trim_matches('"'));
    ResponseContext {
        listens: requester.era == Era::Modern || requester.session.is_some(),
        session: requester.session.clone(),
        reads_empty_events: requester.session.is_some() && incoming.names_version(LEGACY[0]),
        progress: incoming.meta(PROGRESS).map(ToOwned::to_owned),
        log_level: level.and_then(|level| LOG_LEVELS.iter().position(|known| *known == level)),
        capabilities: context.capabilities.clone(),
        claim: requester.caller.claim.clone(),
        method,
        subject,
        body: inputs::held_body(incoming, requester, context),
        principal: buffered.and_then(|buffered| buffered.quota_key().clone()),
        task: None,
    }
}

/// The metadata of a request for upstreams.
pub(super) fn context(
    incoming: &Incoming<'_>,
    requester: &Requester,
) -> Result<RequestContext, Rejection> {
    let (capabilities, log_level) = match &requester.session {
        Some(session) => (session.capabilities(), session.log_level()),
        None => (
            incoming.meta(META_CAPABILITIES).map(Capabilities::from).unwrap_or_default(),
            incoming.meta(META_LOG_LEVEL).map(ToOwned::to_owned),
        ),
    };
    Ok(RequestContext {
        capabilities,
        log_level,
        wants_progress: incoming.meta(PROGRESS).is_some(),
        trace: incoming.trace(),
        hops: incoming.meta(HOPS).map(hops).transpose()?,
        meta: incoming.other_meta(),
        session: requester.session.as_ref().map(|session| session.id().clone()),
        buffered: incoming.buffered().cloned(),
        ..RequestContext::default()
    })
}

/// Reads the number of hops. A malformed number must not reset the count, which would evade limits.
fn hops(raw: &RawValue) -> Result<u32, Rejection> {
    let what = "params._meta[\"registry/hops\"] must be a whole number from 0 to 4294967295";
    raw.get().parse().map_err(|_| Rejection::Params { what })
}

/// Requires that the client declared a protocol extension.
pub(super) fn require_extension(
    context: &RequestContext,
    extension: &'static str,
) -> Result<(), Rejection> {
    if context.capabilities.has_extension(extension) {
        return Ok(());
    }
    Err(Rejection::MissingExtension { extension })
}

/// A request that a session's client can cancel. A stateless client cancels by closing the
/// connection.
pub(super) fn cancellable(
    running: Option<session::RunningRequest>,
    request: PendingResult,
) -> PendingResult {
    let Some(running) = running else { return request };
    Box::pin(async move {
        tokio::select! {
            finished = request => finished,
            () = running.cancelled() => Box::new(|_: Id<'_>| render::http::cancelled()),
        }
    })
}
