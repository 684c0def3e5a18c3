//! The orchestrator: `GET /manifest` and `GET /agents/{id}/manifest` for the context of a model, and
//! `POST /execute` for its calls.
//!
//! An agent is a server or an agent of the registry; a tool belongs to the one that serves it. Results
//! and failures of calls have the status 200, so that clients read one form.

mod execute;
mod manifest;
#[cfg(test)]
mod tests;

use agent_rpc::{
    Failure,
    orchestrator::{Code, write_failure},
};
use axum::{
    Router,
    response::Response,
    routing::{get, post},
};
use http::StatusCode;

use super::{AgentRpc, failure::Refusal, respond};
use crate::audit;

/// The routes.
pub(super) fn routes() -> Router<AgentRpc> {
    Router::new()
        .route("/execute", post(execute::receive))
        .route("/manifest", get(manifest::of_caller))
        .route("/agents/{*path}", get(manifest::of_agent))
}

/// The response to a request that is rejected before a call.
fn refused(refusal: Refusal) -> Response {
    audit::count_rejection(refusal.metric);
    refusal.respond_with(|failure| write_failure(Code::of_failure(failure), failure).into())
}

/// A failure with this status.
fn failed(status: StatusCode, failure: &Failure) -> Response {
    let mut response = respond(write_failure(Code::of_failure(failure), failure).into());
    *response.status_mut() = status;
    response
}
