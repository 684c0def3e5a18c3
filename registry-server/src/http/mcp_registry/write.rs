//! Publishing, and changing the status of what is published.
//!
//! Both are ordinary commits: a published `server.json` is registered as a server entity, a status
//! is a lifecycle. What is published never changes, so replacing and deleting are not implemented.

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
use registry_core::{Code, Diagnostic, Key, rules::Proposed};

use super::{body, problem::Problem, route};
use crate::{
    access::Principal,
    app::{App, apply::Mode},
    registrar::{self, Submission},
};

/// What changes the registry, or would.
pub(super) fn router() -> Router<Arc<App>> {
    let version = "/servers/{name}/versions/{version}";
    let router = route(Router::new(), "/publish", post(publish));
    let router = route(router, version, put(not_implemented).delete(not_implemented));
    let router = route(router, &format!("{version}/status"), patch(status::of_version));
    let router = route(router, "/servers/{name}/status", patch(status::of_all));
    router.route_layer(from_fn(guard::guard))
}

/// Registers a `server.json`. To publish the same again is no change.
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
    not_taken(&app, &key)?;
    let message = format!("{} published over the MCP registry API", key.name);
    commit(&app, &principal, vec![Proposed::Register(Arc::new(document))], message).await?;
    shown(&app, &key).map(Json)
}

async fn not_implemented() -> Problem {
    let why =
        "what is published never changes: publish a new version, or set the status of this one";
    Problem::new(StatusCode::NOT_IMPLEMENTED, why)
}

/// A name that clients know for another entity would be registered and never shown.
fn not_taken(app: &App, key: &Key) -> Result<(), Problem> {
    let served = key.name.as_str();
    match app.namespace.entity(&app.catalog(), served) {
        Some(holder) if holder != key.name => Err(Problem::bad_request(format!(
            "the name {served} is that of the entity server/{holder}, which has no namespace; \
             register its new versions under its own name, or publish under another one"
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
        claimant: principal.claimant(),
        message,
        request_id: None,
        base_revision: None,
    };
    app.writes.apply(submission, Mode::Commit).await?;
    Ok(())
}

/// A version as it is now.
fn shown(app: &App, key: &Key) -> Result<ServerResponse, Problem> {
    let catalog = app.catalog();
    let served = app.namespace.served(&key.name).unwrap_or_default();
    let listing = Listing::new(&catalog, &app.namespace);
    let entry = listing.find(&served, &key.version.to_string(), true);
    entry.as_ref().map(ServerResponse::from).ok_or_else(|| {
        let why = format!("{key} was committed, but is not served under its name");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    })
}

/// A body that is not what it should be.
fn invalid(found: &[Diagnostic]) -> Problem {
    refused(StatusCode::UNPROCESSABLE_ENTITY, "validation failed", found)
}

fn refused(status: StatusCode, what: &str, found: &[Diagnostic]) -> Problem {
    let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
    let first = errors.first().map(|first| first.message.as_str()).unwrap_or_default();
    let more = match errors.len() {
        0 | 1 => String::new(),
        all => format!(", and {} more", all - 1),
    };
    let details = errors.iter().map(|found| (*found).into()).collect();
    Problem::new(status, format!("{what}: {first}{more}")).with(details)
}

impl From<registrar::Error> for Problem {
    fn from(error: registrar::Error) -> Self {
        use registrar::Error;
        let unavailable = |why: String| Self::new(StatusCode::SERVICE_UNAVAILABLE, why);
        match &error {
            Error::Refused(found) => {
                let has = |codes: &[Code]| found.iter().any(|found| codes.contains(&found.code));
                if has(&[Code::NotOwner, Code::OutsideScope]) {
                    return refused(StatusCode::FORBIDDEN, "not yours", found);
                }
                let is_twin = has(&[Code::AlreadyRegistered]);
                let what = if is_twin { "duplicate version" } else { "refused" };
                refused(StatusCode::BAD_REQUEST, what, found)
            }
            Error::BaseRevision { .. } | Error::RequestIdReused { .. } => {
                Self::new(StatusCode::CONFLICT, error.to_string())
            }
            Error::QueueFull | Error::Contended { .. } | Error::Draining | Error::Relay { .. } => {
                unavailable(error.to_string())
            }
            Error::Database(_) => {
                tracing::warn!(%error, "a request failed at the database");
                unavailable(
                    "the database takes no writes at the moment; reading goes on".to_owned(),
                )
            }
            Error::OutcomeUnknown => {
                tracing::error!(%error, "a write's outcome is unknown");
                unavailable(format!("{error}; to ask the same again is safe"))
            }
            Error::Internal(_) => {
                tracing::error!(%error, "a write failed for a reason of our own");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed for a reason of our own")
            }
        }
    }
}
