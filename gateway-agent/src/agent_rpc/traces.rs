//! `GET /traces/{trace_id}`: the execution graph of a trace.

use agent_rpc::{Failure, graph::is_trace_id};
use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use http::StatusCode;

use super::{AgentRpc, failure::Refusal, respond_private};
use crate::{
    audit,
    ingress::{EnteredRequest, authentication, check_origin},
    pipeline::trace_owner,
};

/// Ids of traces can have slashes.
pub(super) const ROUTE: &str = "/traces/{*trace_id}";

/// The graph of a trace, for the account that started it.
pub(super) async fn receive(
    State(surface): State<AgentRpc>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    // No trace has the empty id.
    let id = id.map(|Path(id)| id).unwrap_or_default();
    match Box::pin(find(&surface, &id, request)).await {
        Ok(body) => respond_private(body.into()),
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
    let owner = trace_owner(&caller).filter(|_| is_trace_id(id));
    let graph = match owner {
        Some(owner) => Box::pin(entered.gateway.graphs().find(owner, id)).await,
        None => None,
    };
    // A graph always serializes.
    let body = graph.and_then(|graph| serde_json::to_vec(&graph).ok());
    body.ok_or_else(|| {
        Refusal::of_failure(Failure::trace_not_found(id), StatusCode::NOT_FOUND, "unknown-trace")
    })
}
