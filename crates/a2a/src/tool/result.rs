//! Converts an agent's output to a tool result: its data as structured content, else its text.

use gateway_protocol::{content, jsonrpc::ObjectWriter};
use serde_json::{Value, value::RawValue};

use super::{Message, Task};
use crate::model::TaskState;

/// The meaning of text without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Plain text.
    AsItIs,
    /// JSON if it parses, else plain text.
    MayBeJson,
}

/// A task whose outcome is unknown, because it did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct OpenTask {
    /// The reason.
    pub why: String,
    /// The status message of the agent.
    pub said: Option<String>,
}

/// The result of a message.
pub fn of_message(message: &Message, text: Text) -> String {
    of_all(std::slice::from_ref(message), text)
}

/// The result of a task that has ended or needs input: its artifacts, else its last message.
pub fn of_task(task: &Task, text: Text) -> Result<String, OpenTask> {
    let name = task.state_name();
    let mut said = task.words();
    let why = match task.state() {
        TaskState::Completed => {
            let is_empty = task.artifacts.iter().all(|artifact| artifact.parts.is_empty());
            let last = task.status_message().filter(|_| is_empty);
            return Ok(
                last.map_or_else(|| of_all(&task.artifacts, text), |last| of_message(last, text))
            );
        }
        TaskState::Failed | TaskState::Rejected => return Ok(failed(&name, &said)),
        TaskState::Canceled => "the agent's task was canceled".to_owned(),
        TaskState::InputRequired => {
            format!(
                "the agent's task is {name}, and its question has no answer, so it was canceled; repeat the call with the answer in the arguments, or with a client that declares the capability elicitation"
            )
        }
        TaskState::AuthRequired => {
            format!(
                "the agent's task is {name}, which tools and compositions do not support; it was canceled"
            )
        }
        TaskState::Submitted | TaskState::Working => {
            format!("the agent's task is {name} without an end and was canceled")
        }
        TaskState::Unspecified => {
            // The agent chose the name, so it is not for logs.
            let separator = if said.is_empty() { "" } else { ": " };
            said = format!("state `{name}`{separator}{said}");
            "the agent's task has an unknown state and was canceled".to_owned()
        }
    };
    Err(OpenTask { why, said: Some(said).filter(|said| !said.is_empty()) })
}

/// All data (a single item unwrapped), else all text with artifacts separated. A completed task
/// without either has no value.
fn of_all(messages: &[Message], text: Text) -> String {
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let data: Vec<&str> =
        parts().filter_map(|part| part.data.as_deref().map(RawValue::get)).collect();
    match *data.as_slice() {
        [one] => structured(one),
        [] if parts().all(|part| part.text.is_none()) => r#"{"content":[]}"#.to_owned(),
        [] => {
            let texts = messages.iter().map(Message::text);
            of_text(&texts.collect::<Vec<_>>().join("\n"), text)
        }
        ref several => structured(&format!("[{}]", several.join(","))),
    }
}

fn of_text(words: &str, text: Text) -> String {
    let is_json = text == Text::MayBeJson && serde_json::from_str::<Value>(words).is_ok();
    if is_json {
        return structured(words);
    }
    let mut result = ObjectWriter::with_capacity(2 * words.len() + 64);
    result.raw("content", &content::text_content(words)).string("structuredContent", words);
    result.finish_string()
}

fn structured(data: &str) -> String {
    let mut result = ObjectWriter::with_capacity(2 * data.len() + 64);
    content::write_json_value(data, &mut result);
    result.finish_string()
}

fn failed(state: &str, said: &str) -> String {
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let mut result = ObjectWriter::with_capacity(said.len() + 96);
    let content = content::text_content(&format!("the agent's task is {state}{said}"));
    result.raw("content", &content).raw("isError", "true");
    result.finish_string()
}
