//! Lists of tasks and their page tokens.

use std::cmp::Ordering;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use registry_core::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::{
    error::Failure,
    json::Object,
    model::{Task, TaskState},
    operation::Operation,
    request::Request,
};

/// The page size without `pageSize`.
const DEFAULT_PAGE_SIZE: usize = 50;
/// The largest page size.
const MAX_PAGE_SIZE: usize = 100;
/// Maximum length of a page token, in bytes.
const MAX_TOKEN_BYTES: usize = 2048;

/// The place of a task in lists: the latest status first, then by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The time of the status; tasks without one are last.
    pub time: Option<Timestamp>,
    /// The id of the task.
    pub id: String,
}

impl Place {
    /// The place of a task.
    pub fn of(task: &Value) -> Option<Self> {
        let task = Task::of(task)?;
        let time = task.timestamp().and_then(|text| Timestamp::parse(text).ok());
        Some(Self { time, id: task.id()?.to_owned() })
    }

    /// The page token of the tasks after this place.
    pub fn to_token(&self) -> String {
        let token = json!([self.time.map(Timestamp::as_millis), self.id]);
        BASE64.encode(token.to_string())
    }

    /// Reads a page token. It is no secret and proves nothing: the tasks after it are filtered by
    /// their caller like any others.
    pub fn of_token(token: &str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let token: (Option<i64>, String) =
            serde_json::from_slice(&BASE64.decode(token).ok()?).ok()?;
        Some(Self { time: token.0.map(Timestamp::from_millis), id: token.1 })
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.cmp(&self.time).then_with(|| self.id.cmp(&other.id))
    }
}

/// The filters of `ListTasks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFilter {
    /// The context.
    pub context_id: Option<String>,
    /// The state.
    pub state: Option<TaskState>,
    /// The earliest time of the status.
    pub since: Option<Timestamp>,
    /// Maximum tasks of the page.
    pub page_size: usize,
    /// The place before the first task of the page.
    pub after: Option<Place>,
    /// Maximum messages of each task's history. `None`: no limit.
    pub history_length: Option<usize>,
    /// Whether artifacts are included.
    pub include_artifacts: bool,
}

impl ListFilter {
    /// The filters of a request.
    pub fn of(request: &Request) -> Result<Self, Failure> {
        let params = &request.params;
        let text = |name| crate::json::filled(params, name).map(str::to_owned);
        let invalid = |name: &str, problem: &str| Failure::invalid_params(name, problem);
        let since = text("statusTimestampAfter").map(|text| Timestamp::parse(&text)).transpose();
        let since = since.map_err(|error| invalid("/statusTimestampAfter", &error.to_string()))?;
        let page_size = params.get("pageSize").and_then(Value::as_u64);
        let page_size =
            page_size.map_or(DEFAULT_PAGE_SIZE, |size| usize::try_from(size).unwrap_or(usize::MAX));
        if !(1..=MAX_PAGE_SIZE).contains(&page_size) {
            let problem = format!("a size between 1 and {MAX_PAGE_SIZE} is required");
            return Err(invalid("/pageSize", &problem));
        }
        let after = text("pageToken").map(|token| {
            let unknown = || invalid("/pageToken", "the token is not one of this list");
            Place::of_token(&token).ok_or_else(unknown)
        });
        let state = text("status").map(|name| {
            let unknown = || invalid("/status", "a state such as TASK_STATE_WORKING is required");
            TaskState::parse(&name).ok_or_else(unknown)
        });
        let state = state.transpose()?.filter(|state| *state != TaskState::Unspecified);
        let include = params.get("includeArtifacts").and_then(Value::as_bool);
        Ok(Self {
            context_id: text("contextId"),
            state,
            since,
            page_size,
            after: after.transpose()?,
            history_length: request.history_length(),
            include_artifacts: include.unwrap_or_default(),
        })
    }

    fn has(&self, task: &Value, place: &Place) -> bool {
        let Some(view) = Task::of(task) else { return false };
        self.context_id.as_deref().is_none_or(|id| view.context_id() == Some(id))
            && self.state.is_none_or(|state| view.state() == state)
            && self.since.is_none_or(|since| place.time >= Some(since))
    }

    /// The page of the tasks that a caller may see, as the answer of `ListTasks`.
    pub fn page(&self, tasks: Vec<Value>) -> Value {
        let placed = tasks.into_iter().filter_map(|task| Some((Place::of(&task)?, task)));
        let mut placed: Vec<_> = placed.filter(|(place, task)| self.has(task, place)).collect();
        let total = placed.len();
        placed.sort_by(|(a, _), (b, _)| a.cmp(b));
        placed.retain(|(place, _)| self.after.as_ref().is_none_or(|after| place > after));
        let is_complete = placed.len() <= self.page_size;
        placed.truncate(self.page_size);
        let last = placed.last().filter(|_| !is_complete);
        let next = last.map(|(place, _)| place.to_token()).unwrap_or_default();
        let tasks: Vec<_> = placed.into_iter().map(|(_, task)| self.shortened(task)).collect();
        json!({ "tasks": tasks, "nextPageToken": next, "pageSize": self.page_size,
            "totalSize": total })
    }

    fn shortened(&self, mut task: Value) -> Value {
        if let Some(task) = task.as_object_mut() {
            if !self.include_artifacts {
                task.remove("artifacts");
            }
            shorten_history(task, self.history_length);
        }
        task
    }
}

/// Keeps the last messages of the history of the task in an answer or event, which agents of 0.3 need
/// not limit. Zero removes the member (section 3.2.4).
pub fn limit_history(operation: Operation, answer: &mut Value, length: Option<usize>) {
    let task = match operation {
        Operation::GetTask => Some(answer),
        _ => answer.get_mut("task"),
    };
    if let Some(task) = task.and_then(Value::as_object_mut) {
        shorten_history(task, length);
    }
}

fn shorten_history(task: &mut Object, length: Option<usize>) {
    let Some(length) = length else { return };
    if length == 0 {
        task.remove("history");
    } else if let Some(Value::Array(history)) = task.get_mut("history") {
        history.drain(..history.len().saturating_sub(length));
    }
}

#[cfg(test)]
mod tests;
