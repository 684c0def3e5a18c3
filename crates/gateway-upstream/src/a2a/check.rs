//! Checks of the parts of answers that callers rely on: the task and its state.

use a2a::{
    ErrorKind, Failure, Operation, TaskState,
    model::{Event, Task},
};
use serde_json::Value;

/// Checks an answer or an event of a stream.
pub(super) fn check_answer(operation: Operation, answer: &Value) -> Result<(), Failure> {
    match operation {
        // The answer to a streaming operation is its events.
        _ if answer.is_null() => Ok(()),
        Operation::GetTask | Operation::CancelTask => {
            check_task(answer, Task::of(answer).and_then(Task::id))
        }
        Operation::SendMessage | Operation::SendStreamingMessage | Operation::SubscribeToTask => {
            match Event::of(answer) {
                Some(Event::Task(task)) => check_task(&answer["task"], task.id()),
                Some(Event::Status { task_id, .. }) => {
                    check_task(&answer["statusUpdate"], Some(task_id))
                }
                Some(Event::Message(_) | Event::Artifact { .. }) => Ok(()),
                None => Err(invalid("an event names no task")),
            }
        }
        _ => Ok(()),
    }
}

fn check_task(task: &Value, id: Option<&str>) -> Result<(), Failure> {
    if id.is_none() {
        return Err(invalid("a task has no id"));
    }
    let state = task["status"]["state"].as_str();
    if state.and_then(TaskState::parse).is_none() {
        return Err(invalid("a task has no known state"));
    }
    Ok(())
}

pub(super) fn invalid(problem: &str) -> Failure {
    let message = format!("the agent's answer is invalid: {problem}");
    Failure::new(ErrorKind::InvalidAgentResponse, message)
}
