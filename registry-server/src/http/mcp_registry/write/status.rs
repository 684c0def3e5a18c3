//! Changes the status of one version or of all versions: `active`, `deprecated` or `deleted`.
//!
//! Replacements and sunset dates are not part of this API; `registryctl` sets them.

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

/// Requested status.
struct StatusUpdate {
    state: LifecycleState,
    message: Option<String>,
}

pub(super) async fn set_version(
    State(app): State<Arc<App>>,
    Extension(principal): Extension<Arc<Principal>>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Body,
) -> Result<Json<ServerResponse>, Problem> {
    let Path((name, version)) = path.map_err(|_| not_found())?;
    let update = StatusUpdate::read(&body::json(body).await?)?;
    app.registrar.catch_up().await?;
    let entries = Listing::new(&app.catalog(), &app.namespace).versions(&name, true);
    let mut entries = entries.into_iter();
    let is_requested = |entry: &Entry| entry.record.document.key().version.to_string() == version;
    let entry = entries.find(is_requested).ok_or_else(not_found)?;
    let changed = update.apply(&app, &principal, &[entry]).await?;
    let key = changed.first().ok_or_else(not_found)?;
    shown(&app, key).map(Json)
}

pub(super) async fn set_all_versions(
    State(app): State<Arc<App>>,
    Extension(principal): Extension<Arc<Principal>>,
    name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Json<VersionsUpdated>, Problem> {
    let Path(name) = name.map_err(|_| not_found())?;
    let update = StatusUpdate::read(&body::json(body).await?)?;
    app.registrar.catch_up().await?;
    let entries = Listing::new(&app.catalog(), &app.namespace).versions(&name, true);
    if entries.is_empty() {
        return Err(not_found());
    }
    let changed = update.apply(&app, &principal, &entries).await?;
    let servers: Result<Vec<_>, _> = changed.iter().map(|key| shown(&app, key)).collect();
    let servers = servers?;
    Ok(Json(VersionsUpdated { updated_count: servers.len(), servers }))
}

impl StatusUpdate {
    fn read(body: &Value) -> Result<Self, Problem> {
        let format = "send {\"status\": …, \"statusMessage\"?: …}";
        let body = body.as_object().ok_or_else(|| Problem::bad_request(format))?;
        if let Some(other) =
            body.keys().find(|k| !["status", "statusMessage"].contains(&k.as_str()))
        {
            let other: String = other.chars().take(64).collect();
            return Err(Problem::bad_request(format!("unknown field `{other}`; {format}")));
        }
        let status = text(body, "status")?.ok_or_else(|| Problem::bad_request(format))?;
        let status: Status =
            status.parse().map_err(|error| Problem::bad_request(format!("{error}")))?;
        let (state, message) = (LifecycleState::from(status), text(body, "statusMessage")?);
        if state == LifecycleState::Active && message.is_some() {
            let detail = "statusMessage is not allowed with status active";
            return Err(Problem::bad_request(detail));
        }
        let max = REASON_CHARACTERS;
        if message.as_ref().is_some_and(|message| message.chars().count() > max) {
            let detail = format!("statusMessage exceeds {max} characters");
            return Err(Problem::bad_request(detail));
        }
        if message.as_ref().is_some_and(|message| clean(message).removed > 0) {
            return Err(invisible_characters());
        }
        Ok(Self { state, message })
    }

    fn matches(&self, lifecycle: &Lifecycle) -> bool {
        lifecycle.state == self.state && lifecycle.message() == self.message.as_deref()
    }

    /// Applies the update in one commit and returns the changed versions.
    async fn apply(
        &self,
        app: &App,
        principal: &Principal,
        entries: &[Entry],
    ) -> Result<Vec<Key>, Problem> {
        let others = entries.iter().filter(|entry| !self.matches(&entry.record.lifecycle));
        let batch: Vec<_> = others.map(|entry| self.proposed(entry)).collect();
        let keys: Vec<_> = batch.iter().map(|proposed| proposed.key().clone()).collect();
        let Some(first) = keys.first() else {
            let detail = "no changes: all versions already have this status and message";
            return Err(Problem::bad_request(detail));
        };
        let verb = match self.state {
            LifecycleState::Active => "Restore",
            LifecycleState::Deprecated => "Deprecate",
            LifecycleState::Retired => "Retire",
        };
        let message = format!("{verb} {} over the MCP registry API", first.name);
        commit(app, principal, batch, message).await?;
        Ok(keys)
    }

    /// Keeps the replacement and the sunset date of the current notice.
    fn proposed(&self, entry: &Entry) -> Proposed {
        let (key, state) = (entry.record.document.key().clone(), self.state);
        let current = entry.record.lifecycle.notice.as_deref().cloned().unwrap_or_default();
        let notice = match state {
            LifecycleState::Active => Notice::default(),
            LifecycleState::Deprecated | LifecycleState::Retired => {
                Notice { message: self.message.clone(), force_reason: None, ..current }
            }
        };
        Proposed::SetLifecycle { key, state, notice }
    }
}

fn invisible_characters() -> Problem {
    let message = "statusMessage has control or invisible characters".to_owned();
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
        Some(_) => Err(Problem::bad_request(format!("{name} must be a string"))),
    }
}

fn not_found() -> Problem {
    Problem::not_found("server version not found")
}
