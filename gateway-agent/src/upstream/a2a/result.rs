//! What an agent gives, as a tool's result: its data as structured content, or else its text.
//!
//! Deliberately absent: files.

use serde_json::value::RawValue;

use super::task::{Message, Part, State, Task};
use crate::{content, jsonrpc::ObjectWriter};

/// Of a message.
pub(super) fn of_message(message: &Message) -> String {
    of_all(std::slice::from_ref(message))
}

/// Of a task that goes on no more: its artifacts, or else what it says last.
pub(super) fn of_task(task: &Task) -> String {
    let state = task.state();
    if state == State::Completed {
        let is_empty = task.artifacts.iter().all(|artifact| artifact.parts.is_empty());
        let last = task.says().filter(|_| is_empty);
        return last.map_or_else(|| of_all(&task.artifacts), of_message);
    }
    let said = task.says().map(|message| text_of(&message.parts)).unwrap_or_default();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    let name = task.state_name();
    failed(&if state == State::Waiting {
        format!("its task is {name}, which a composition cannot help, and was canceled{said}")
    } else {
        format!("its task is {name}{said}")
    })
}

/// All data, where there is one as it is; else all text, that of artifacts apart.
fn of_all(messages: &[Message]) -> String {
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let data: Vec<&str> =
        parts().filter_map(|part| part.data.as_deref().map(RawValue::get)).collect();
    match *data.as_slice() {
        [one] => structured(one),
        [] if parts().all(|part| part.text.is_none()) => {
            failed("it gave neither data nor text, which is all that a composition can go on with")
        }
        [] => {
            let texts = messages.iter().map(|message| text_of(&message.parts));
            let mut result = ObjectWriter::with_capacity(256);
            result.raw("content", &content::of_text(&texts.collect::<Vec<_>>().join("\n")));
            result.finish_string()
        }
        ref several => structured(&format!("[{}]", several.join(","))),
    }
}

fn structured(data: &str) -> String {
    let mut result = ObjectWriter::with_capacity(2 * data.len() + 64);
    content::say_json(data, &mut result);
    result.finish_string()
}

fn failed(text: &str) -> String {
    let mut result = ObjectWriter::with_capacity(text.len() + 64);
    result.raw("content", &content::of_text(text)).raw("isError", "true");
    result.finish_string()
}

/// A text that came in pieces.
fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| part.text.as_deref()).collect()
}
