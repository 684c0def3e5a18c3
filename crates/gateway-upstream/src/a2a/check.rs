//! Checks of the parts of answers that callers rely on: the task and its state.

use a2a::{
    Failure, Operation, Request, TaskState,
    model::{Event, Task},
};
use serde_json::Value;

/// Checks the answer to a request whose operation is no stream. A task of the answer must be that of
/// the request, because the caller receives a valid id for it.
pub(super) fn check_answer(request: &Request, answer: &Value) -> Result<(), Failure> {
    let id = match request.operation {
        Operation::GetTask | Operation::CancelTask => {
            let id = Task::of(answer).and_then(Task::id);
            check_task(answer, id)?;
            id
        }
        Operation::SendMessage => check_event(answer)?.task_id(),
        _ => None,
    };
    match (request.task_id(), id) {
        (Some(requested), Some(id)) if requested != id => {
            Err(Failure::invalid_answer("it is another task"))
        }
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
