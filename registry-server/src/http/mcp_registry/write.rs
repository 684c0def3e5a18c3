//! Publishing servers and changing their status.
//!
//! Both are ordinary commits: publishing registers a server entity, and a status is its lifecycle state.
//! Published documents are immutable, so replacing and deleting them is not implemented.

mod guard;
mod status;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::State,
    http::StatusCode,
    middleware::from_fn,
    routing::{patch, post, put},
};
use mcp_registry::{Listing, ServerResponse};
use policy::PolicyBreaks;
use registry_core::{Code, Diagnostic, Key, rules::Proposed};

use super::{body, problem::Problem, route};
use crate::{
    access::Principal,
    app::{App, apply::Mode},
    registrar::{self, Submission},
};

/// Routes that change the registry.
pub(super) fn router() -> Router<Arc<App>> {
    let version = "/servers/{name}/versions/{version}";
    let router = route(Router::new(), "/publish", post(publish));
    let router = route(router, version, put(not_implemented).delete(not_implemented));
    let router = route(router, &format!("{version}/status"), patch(status::set_version));
    let router = route(router, "/servers/{name}/status", patch(status::set_all_versions));
    router.route_layer(from_fn(guard::guard))
}

/// Registers a `server.json`. Publishing the same document again changes nothing.
async fn publish(
    State(app): State<Arc<App>>,
    Extension(principal): Extension<Arc<Principal>>,
    body: Body,
) -> Result<Json<ServerResponse>, Problem> {
    let value = body::json(body).await?;
    let (document, found) = mcp_registry::document(&value);
    let document = document.ok_or_else(|| invalid(&found))?;
    let key = document.key().clone();
    app.registrar.catch_up().await?;
    reject_name_conflict(&app, &key)?;
    let message = format!("Publish {} over the MCP registry API", key.name);
    commit(&app, &principal, vec![Proposed::Register(Arc::new(document))], message).await?;
    shown(&app, &key).map(Json)
}

async fn not_implemented() -> Problem {
    let detail = "published versions are immutable: publish a new version, or set the status of this version";
    Problem::new(StatusCode::NOT_IMPLEMENTED, detail)
}

/// Rejects a name under which the API already serves another entity. It could be registered, but not served.
fn reject_name_conflict(app: &App, key: &Key) -> Result<(), Problem> {
    let served = key.name.as_str();
    match app.namespace.entity(&app.catalog(), served) {
        Some(holder) if holder != key.name => Err(Problem::bad_request(format!(
            "the name {served} is served for entity server/{holder}, which has no namespace; register new \
             versions as server/{holder}, or publish under another name"
        ))),
        _ => Ok(()),
    }
}

async fn commit(
    app: &App,
    principal: &Principal,
    batch: Vec<Proposed>,
    message: String,
) -> Result<(), Problem> {
    let submission = Submission {
        batch,
        settings: Vec::new(),
        author: principal.name.to_string(),
        origin: principal.origin(),
        address: principal.address_text(),
        permissions: principal.permissions(),
        message,
        request_id: None,
        base_revision: None,
        policy_breaks: PolicyBreaks::Reject,
        preconditions: Vec::new(),
    };
    app.writes.apply(submission, Mode::Commit).await?;
    Ok(())
}

/// Returns the current state of a version.
fn shown(app: &App, key: &Key) -> Result<ServerResponse, Problem> {
    let catalog = app.catalog();
    let served = app.namespace.served(&key.name).unwrap_or_default();
    let listing = Listing::new(&catalog, &app.namespace);
    let entry = listing.find(&served, &key.version.to_string(), true);
    entry.as_ref().map(ServerResponse::from).ok_or_else(|| {
        let detail = format!("{key} was committed but is not served under its name");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    })
}

/// An invalid document.
fn invalid(found: &[Diagnostic]) -> Problem {
    rejected(StatusCode::UNPROCESSABLE_ENTITY, "validation failed", found)
}

fn rejected(status: StatusCode, summary: &str, found: &[Diagnostic]) -> Problem {
    let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
    let first = errors.first().map(|first| first.message.as_str()).unwrap_or_default();
    let more = match errors.len() {
        0 | 1 => String::new(),
        all => format!(", and {} more", all - 1),
    };
    let details = errors.iter().map(|found| (*found).into()).collect();
    Problem::new(status, format!("{summary}: {first}{more}")).with(details)
}

impl From<registrar::Error> for Problem {
    fn from(error: registrar::Error) -> Self {
        use registrar::Error;
        let unavailable = |detail: String| Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        match &error {
            Error::Refused(found) => {
                let has = |codes: &[Code]| found.iter().any(|found| codes.contains(&found.code));
                if has(&[Code::NotOwner, Code::OutsideScope, Code::RoleRequired]) {
                    return rejected(StatusCode::FORBIDDEN, "permission denied", found);
                }
                let is_duplicate = has(&[Code::AlreadyRegistered]);
                let summary = if is_duplicate { "duplicate version" } else { "rejected" };
                rejected(StatusCode::BAD_REQUEST, summary, found)
            }
            Error::BaseRevision { .. }
            | Error::DigestMismatch { .. }
            | Error::RequestIdReused { .. } => Self::new(StatusCode::CONFLICT, error.to_string()),
            Error::QueueFull | Error::Contended { .. } | Error::Draining | Error::Relay { .. } => {
                unavailable(error.to_string())
            }
            Error::Database(_) => {
                tracing::warn!(%error, "a write failed because of the database");
                unavailable(
                    "the database accepts no writes; reads still work, retry later".to_owned(),
                )
            }
            Error::OutcomeUnknown => {
                tracing::error!(%error, "the outcome of a write is unknown");
                unavailable(format!("{error}; repeating the same request is safe"))
            }
            Error::Internal(_) => {
                tracing::error!(%error, "internal error while handling a write");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the server log")
            }
        }
    }
}
