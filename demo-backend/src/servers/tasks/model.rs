//! Tasks, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::page::{Totals, Window};

/// A task.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id, such as `task-1`.
    pub id: String,
    /// The title.
    pub title: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The user who is to do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether it is done.
    pub status: Status,
    /// When it was created.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When it was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub completed_at: Option<String>,
}

/// How urgent a task is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Priority {
    /// Some day.
    Low,
    /// In its turn.
    #[default]
    Normal,
    /// Before the others.
    High,
}

/// Whether a task is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Status {
    /// To be done.
    Open,
    /// Done.
    Completed,
}

/// A task to create.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateTask {
    /// The title.
    #[schemars(length(min = 1))]
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// Id of the user who is to do it, such as `user-1`.
    pub assignee: Option<String>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
}

/// Filters for tasks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ListTasks {
    /// Only those of this user.
    pub assignee: Option<String>,
    /// Only those in this status.
    pub status: Option<Status>,
    /// The page to return.
    #[serde(flatten)]
    pub window: Window,
}

/// One task.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskId {
    /// The task's id, such as `task-1`.
    pub id: String,
}

/// A page of tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskList {
    /// The tasks of this page, oldest first.
    pub tasks: Vec<Task>,
    /// The size of the whole.
    #[serde(flatten)]
    pub totals: Totals,
}

impl ListTasks {
    /// Whether the task is wanted.
    pub fn admits(&self, task: &Task) -> bool {
        self.status.is_none_or(|status| status == task.status)
            && (self.assignee.is_none() || self.assignee == task.assignee)
    }
}
