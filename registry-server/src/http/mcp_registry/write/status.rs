//! The status of one version, or of all: `active`, `deprecated`, `deleted`.
//!
//! Replacements and dates are not supported by this API; `registryctl` sets them.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
};
use mcp_registry::{Entry, Listing, REASON_CHARACTERS, ServerResponse, Status, VersionsUpdated};
use registry_core::{Code, Key, Lifecycle, LifecycleState, Notice, rules::Proposed, text::clean};
use serde_json::{Map, Value};

use super::{commit, shown};
use crate::{
    access::Principal,
    app::App,
    http::mcp_registry::{
        body,
        problem::{Detail, Problem},
    },
};

/// What somebody wants the status to be.
struct Wanted {
    state: LifecycleState,
    message: Option<String>,
}

pub(super) async fn of_version(
    State(app): State<Arc<App>>,
    Extension(principal): Extension<Arc<Principal>>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Body,
) -> Result<Json<ServerResponse>, Problem> {
    let Path((name, version)) = path.map_err(|_| not_found())?;
    let wanted = Wanted::read(&body::json(body).await?)?;
    app.registrar.catch_up().await?;
    let entries = Listing::new(&app.catalog(), &app.namespace).versions(&name, true);
    let mut entries = entries.into_iter();
    let is_meant = |entry: &Entry| entry.record.document.key().version.to_string() == version;
    let entry = entries.find(is_meant).ok_or_else(not_found)?;
    let changed = wanted.set(&app, &principal, &[entry]).await?;
    let key = changed.first().ok_or_else(not_found)?;
    shown(&app, key).map(Json)
}

pub(super) async fn of_all(
    State(app): State<Arc<App>>,
    Extension(principal): Extension<Arc<Principal>>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Json<VersionsUpdated>, Problem> {
    let Path(name) = name.map_err(|_| not_found())?;
    let wanted = Wanted::read(&body::json(body).await?)?;
    app.registrar.catch_up().await?;
    let entries = Listing::new(&app.catalog(), &app.namespace).versions(&name, true);
    if entries.is_empty() {
        return Err(not_found());
    }
    let changed = wanted.set(&app, &principal, &entries).await?;
    let servers: Result<Vec<_>, _> = changed.iter().map(|key| shown(&app, key)).collect();
    let servers = servers?;
    Ok(Json(VersionsUpdated { updated_count: servers.len(), servers }))
}

impl Wanted {
    fn read(body: &Value) -> Result<Self, Problem> {
        let form = "the body must be {\"status\": …, \"statusMessage\"?: …}";
        let body = body.as_object().ok_or_else(|| Problem::bad_request(form))?;
        if let Some(other) =
            body.keys().find(|k| !["status", "statusMessage"].contains(&k.as_str()))
        {
            let other: String = other.chars().take(64).collect();
            return Err(Problem::bad_request(format!("unknown field `{other}`; {form}")));
        }
        let status = text(body, "status")?.ok_or_else(|| Problem::bad_request(form))?;
        let status: Status =
            status.parse().map_err(|error| Problem::bad_request(format!("{error}")))?;
        let (state, message) = (LifecycleState::from(status), text(body, "statusMessage")?);
        if state == LifecycleState::Active && message.is_some() {
            let why = "statusMessage is for deprecated and deleted; an active version has none";
            return Err(Problem::bad_request(why));
        }
        let most = REASON_CHARACTERS;
        if message.as_ref().is_some_and(|message| message.chars().count() > most) {
            let why = format!("statusMessage has more than {most} characters");
            return Err(Problem::bad_request(why));
        }
        if message.as_ref().is_some_and(|message| clean(message).removed > 0) {
            return Err(unseen());
        }
        Ok(Self { state, message })
    }

    fn is_so(&self, lifecycle: &Lifecycle) -> bool {
        lifecycle.state == self.state && lifecycle.message() == self.message.as_deref()
    }

    /// Changes what is different, in one commit, and gives which that was.
    async fn set(
        &self,
        app: &App,
        principal: &Principal,
        entries: &[Entry],
    ) -> Result<Vec<Key>, Problem> {
        let others = entries.iter().filter(|entry| !self.is_so(&entry.record.lifecycle));
        let batch: Vec<_> = others.map(|entry| self.proposed(entry)).collect();
        let keys: Vec<_> = batch.iter().map(|proposed| proposed.key().clone()).collect();
        let Some(first) = keys.first() else {
            let why = "no changes to apply: status and message are as wanted already";
            return Err(Problem::bad_request(why));
        };
        let done = match self.state {
            LifecycleState::Active => "restored",
            LifecycleState::Deprecated | LifecycleState::Retired => self.state.as_str(),
        };
        let why = format!("{} {done} over the MCP registry API", first.name);
        commit(app, principal, batch, why).await?;
        Ok(keys)
    }

    /// What was said about a replacement and a date stays said.
    fn proposed(&self, entry: &Entry) -> Proposed {
        let (key, state) = (entry.record.document.key().clone(), self.state);
        let said = entry.record.lifecycle.notice.as_deref().cloned().unwrap_or_default();
        let notice = match state {
            LifecycleState::Active => Notice::default(),
            LifecycleState::Deprecated | LifecycleState::Retired => {
                Notice { message: self.message.clone(), forced: None, ..said }
            }
        };
        Proposed::SetLifecycle { key, state, notice }
    }
}

fn unseen() -> Problem {
    let message = "statusMessage has control characters or others that nobody sees".to_owned();
    let detail = Detail {
        code: Code::DocumentInvalid.to_string(),
        message: message.clone(),
        location: "body.statusMessage".to_owned(),
        pointer: "/statusMessage".to_owned(),
        help: Some("remove them".to_owned()),
    };
    Problem::bad_request(message).with(vec![detail])
}

fn text(body: &Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Problem::bad_request(format!("{name} must be a text"))),
    }
}

fn not_found() -> Problem {
    Problem::not_found("server version not found")
}
