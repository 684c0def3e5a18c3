//! Checks of the parts of answers that callers rely on: the task and its state.

use a2a::{
    Failure, Operation, TaskState,
    model::{Event, Task},
};
use serde_json::Value;

/// Checks the answer to an operation that is no stream.
pub(super) fn check_answer(operation: Operation, answer: &Value) -> Result<(), Failure> {
    match operation {
        Operation::GetTask | Operation::CancelTask => {
            check_task(answer, Task::of(answer).and_then(Task::id))
        }
        Operation::SendMessage => check_event(answer).map(drop),
        _ => Ok(()),
    }
}

/// Checks an event of a stream.
pub(super) fn check_event(event: &Value) -> Result<Event<'_>, Failure> {
    let view = Event::of(event);
    let view = view.ok_or_else(|| Failure::invalid_answer("an event names no task"))?;
    match view {
        Event::Task(task) => check_task(&event["task"], task.id())?,
        Event::Status { task_id, .. } => check_task(&event["statusUpdate"], Some(task_id))?,
        Event::Message(_) | Event::Artifact { .. } => {}
    }
    Ok(view)
}

fn check_task(task: &Value, id: Option<&str>) -> Result<(), Failure> {
    if id.is_none() {
        return Err(Failure::invalid_answer("a task has no id"));
    }
    let state = task["status"]["state"].as_str();
    if state.and_then(TaskState::parse).is_none() {
        return Err(Failure::invalid_answer("a task has no known state"));
    }
    Ok(())
}
