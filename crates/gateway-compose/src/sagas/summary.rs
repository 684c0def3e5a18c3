//! The sagas as operators see them.

use std::sync::Arc;

use registry_core::{Key, Timestamp};
use serde::Serialize;

use super::{Sagas, table::SagaEntry};
use crate::history::History;

/// Maximum number of listed sagas. Sagas that need an operator come first, then the newest.
const MAX_LISTED: usize = 1_000;

/// The sagas of this gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SagaList<'a> {
    sagas: Vec<SagaSummary<'a>>,
    /// The number of sagas that are not listed.
    more: usize,
    damaged_lines: usize,
}

/// A saga with the inputs and results of its steps.
#[derive(Debug, Serialize)]
pub struct SagaDetail<'a> {
    saga: SagaSummary<'a>,
    history: Arc<History>,
}

impl Sagas {
    /// Calls `render` with the list of sagas.
    pub fn list<T>(&self, render: impl FnOnce(&SagaList<'_>) -> T) -> T {
        let table = self.lock();
        let sagas: Vec<_> = table.by_urgency().take(MAX_LISTED).map(summary).collect();
        let more = table.iter().count() - sagas.len();
        render(&SagaList { sagas, more, damaged_lines: table.damaged })
    }

    /// Calls `render` with a saga. Returns `None` if the saga is unknown.
    pub fn show<T>(&self, id: &str, render: impl FnOnce(&SagaDetail<'_>) -> T) -> Option<T> {
        let table = self.lock();
        let known = table.get(id)?;
        let history = Arc::clone(&known.history);
        Some(render(&SagaDetail { saga: summary((id, known)), history }))
    }
}

/// The state of a saga.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SagaSummary<'a> {
    id: &'a str,
    tool: &'a Key,
    /// The place in the tool's spec.
    pointer: &'a str,
    /// The enclosing saga.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    /// The value of `sagaIdPath`, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_step: Option<&'a str>,
    /// The steps that could not be compensated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<&'a str>,
    /// The time of the last event.
    at: String,
}

fn summary<'a>((id, known): (&'a str, &'a SagaEntry)) -> SagaSummary<'a> {
    let (began, end) = (known.history.began(), known.history.ended());
    SagaSummary {
        id,
        tool: &began.tool,
        pointer: &began.pointer,
        parent: began.parent.as_deref(),
        instance: began.instance.as_deref(),
        status: known.history.status(),
        failed_step: end.and_then(|end| end.failed_step.as_deref()),
        left: end.map(|end| end.left()).unwrap_or_default(),
        at: Timestamp::from_millis(known.at_ms).to_string(),
    }
}
