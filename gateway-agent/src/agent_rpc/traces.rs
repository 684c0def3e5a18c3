//! `GET /traces/{trace_id}`.

use agent_rpc::Failure;
use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header::CACHE_CONTROL};

use super::super::{AgentRpc, failure::Refusal, respond};
use crate::{
    audit,
    ingress::{EnteredRequest, authentication, check_origin},
    pipeline::TaskOwner,
};

/// Ids of traces can have slashes.
pub(in super::super) const ROUTE: &str = "/traces/{*trace_id}";

/// The graph of a trace, for the principal that started it.
pub(in super::super) async fn receive(
    State(surface): State<AgentRpc>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    match find(&surface, &id, request).await {
        Ok(body) => {
            let mut response = respond(body.into());
            let fresh = HeaderValue::from_static("private, no-cache");
            response.headers_mut().insert(CACHE_CONTROL, fresh);
            response
        }
        Err(refusal) => {
            audit::count_rejection(refusal.metric);
            refusal.respond(None)
        }
    }
}

async fn find(surface: &AgentRpc, id: &str, request: Request) -> Result<Vec<u8>, Refusal> {
    let entered = EnteredRequest::authenticate(&surface.gateway, request).await?;
    check_origin(&entered.gateway, &entered.parts)?;
    let caller = authentication(&entered.parts);
    let owner = TaskOwner::of(&entered.gateway, &caller.claim);
    let graph = owner.and_then(|owner| surface.aio.graphs.find(owner, id));
    // A graph always serializes.
    let body = graph.and_then(|graph| serde_json::to_vec(&graph).ok());
    body.ok_or_else(|| {
        Refusal::of_failure(Failure::trace_not_found(id), StatusCode::NOT_FOUND, "unknown-trace")
    })
}
