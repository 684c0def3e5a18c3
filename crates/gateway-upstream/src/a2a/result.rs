//! What an agent gives, as a tool's result: its data as structured content, or else its text.
//!
//! Files are not supported.

use gateway_protocol::{content, jsonrpc::ObjectWriter};
use serde_json::{Value, value::RawValue};

use super::task::{Message, Part, State, Task};
use crate::error::Error;

/// What a text means that comes without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// Itself.
    AsItIs,
    /// If it is JSON, the value that it writes.
    MayBeJson,
}

/// Of a message.
pub(super) fn of_message(message: &Message, text: Text) -> String {
    of_all(std::slice::from_ref(message), text)
}

/// Of a task that goes on no more: its artifacts, or else what it says last. Where it did not come to an
/// end of its own, nobody knows what it has done.
pub(super) fn of_task(task: &Task, text: Text) -> Result<String, Error> {
    let name = task.state_name();
    let why = match task.state() {
        State::Completed => {
            let is_empty = task.artifacts.iter().all(|artifact| artifact.parts.is_empty());
            let last = task.says().filter(|_| is_empty);
            return Ok(
                last.map_or_else(|| of_all(&task.artifacts, text), |last| of_message(last, text))
            );
        }
        State::Failed => return Ok(failed(&name, &words_of(task))),
        State::Canceled => "its task was canceled".to_owned(),
        State::Waiting => {
            format!("its task is {name}, which a composition cannot help, and was canceled")
        }
        State::Working | State::Unknown => {
            format!("its task is in a state that nobody knows, `{name}`, and was canceled")
        }
    };
    Err(Error::OpenTask { why, said: Some(words_of(task)).filter(|said| !said.is_empty()) })
}

/// All data, where there is one as it is; else all text, that of artifacts apart. What is done and
/// shows nothing of either has no value.
fn of_all(messages: &[Message], text: Text) -> String {
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let data: Vec<&str> =
        parts().filter_map(|part| part.data.as_deref().map(RawValue::get)).collect();
    match *data.as_slice() {
        [one] => structured(one),
        [] if parts().all(|part| part.text.is_none()) => r#"{"content":[]}"#.to_owned(),
        [] => {
            let texts = messages.iter().map(|message| text_of(&message.parts));
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
    let content = content::text_content(&format!("its task is {state}{said}"));
    result.raw("content", &content).raw("isError", "true");
    result.finish_string()
}

/// What a task says of how it stands.
fn words_of(task: &Task) -> String {
    task.says().map(|message| text_of(&message.parts)).unwrap_or_default()
}

/// A text that came in pieces.
fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| part.text.as_deref()).collect()
}
