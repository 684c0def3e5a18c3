//! `task-service`: tasks that are created, listed and completed.

pub mod model;

use std::sync::Mutex;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};

use self::model::{CreateTask, ListTasks, Status, Task, TaskId, TaskList};
use crate::clock::Clock;
use crate::hosted_server::Domain;
use crate::records::{Records, lock};
use crate::tool_error::ToolError;

/// The task server.
#[derive(Debug)]
pub struct Tasks {
    clock: Clock,
    tasks: Mutex<Records<Task>>,
}

impl Tasks {
    /// A server without tasks.
    pub fn new(clock: Clock) -> Self {
        Self { clock, tasks: Mutex::new(Records::new("task")) }
    }
}

impl Domain for Tasks {
    const NAME: &'static str = "task-service";
    const VERSION: &'static str = "1.0.0";
    const PATH: &'static str = "/tasks/mcp";
    const INSTRUCTIONS: &'static str = "Keep track of what is to be done and who does it.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Tasks {
    /// Create a task, with or without an assignee.
    #[tool(annotations(
        title = "Create task",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    fn create_task(
        &self,
        Parameters(new): Parameters<CreateTask>,
    ) -> Result<Json<Task>, ToolError> {
        if new.title.trim().is_empty() {
            return Err(ToolError::invalid("title is empty"));
        }
        let created_at = self.clock.timestamp();
        let mut tasks = lock(&self.tasks);
        let task = tasks.add(|id| Task {
            id,
            title: new.title,
            description: new.description,
            assignee: new.assignee,
            priority: new.priority,
            status: Status::Open,
            created_at,
            completed_at: None,
        });
        Ok(Json(task.clone()))
    }

    /// List tasks, oldest first, of one assignee or in one status if wanted.
    #[tool(annotations(
        title = "List tasks",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn list_tasks(
        &self,
        Parameters(wanted): Parameters<ListTasks>,
    ) -> Result<Json<TaskList>, ToolError> {
        let tasks = lock(&self.tasks);
        let (tasks, totals) =
            wanted.window.cut(tasks.iter().filter(|task| wanted.admits(task)).cloned())?;
        Ok(Json(TaskList { tasks, totals }))
    }

    /// Complete a task; completing it again changes nothing.
    #[tool(annotations(
        title = "Complete task",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn complete_task(
        &self,
        Parameters(TaskId { id }): Parameters<TaskId>,
    ) -> Result<Json<Task>, ToolError> {
        let mut tasks = lock(&self.tasks);
        let task = tasks.find_mut(&id).ok_or_else(|| ToolError::not_found("task", &id))?;
        if task.status == Status::Open {
            task.status = Status::Completed;
            task.completed_at = Some(self.clock.timestamp());
        }
        Ok(Json(task.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn server() -> Tasks {
        let server = Tasks::new(Clock::System);
        for (title, assignee) in [("a", "user-1"), ("b", "user-2"), ("c", "user-1")] {
            let new = json!({ "title": title, "assignee": assignee });
            let new = serde_json::from_value(new).unwrap();
            server.create_task(Parameters(new)).map(|task| task.0).unwrap();
        }
        server
    }

    fn titles(server: &Tasks, wanted: Value) -> Vec<String> {
        let wanted = serde_json::from_value(wanted).unwrap();
        let list = server.list_tasks(Parameters(wanted)).map(|list| list.0).unwrap();
        list.tasks.into_iter().map(|task| task.title).collect()
    }

    fn complete(server: &Tasks, id: &str) -> Result<Task, ToolError> {
        server.complete_task(Parameters(TaskId { id: id.into() })).map(|task| task.0)
    }

    #[test]
    fn lists_by_assignee_and_status() {
        let server = server();
        complete(&server, "task-1").unwrap();
        assert_eq!(titles(&server, json!({})), ["a", "b", "c"]);
        assert_eq!(titles(&server, json!({ "assignee": "user-1" })), ["a", "c"]);
        assert_eq!(titles(&server, json!({ "status": "completed" })), ["a"]);
        assert_eq!(titles(&server, json!({ "assignee": "user-1", "status": "open" })), ["c"]);
    }

    #[test]
    fn completing_twice_keeps_the_first_time() {
        let server = server();
        let first = complete(&server, "task-2").unwrap();
        assert_eq!(first.status, Status::Completed);
        assert_eq!(complete(&server, "task-2").unwrap().completed_at, first.completed_at);
        assert_eq!(complete(&server, "task-9").unwrap_err().code, "not_found");
    }
}
