//! The data of messages and answers, and messages as policies see them.

use a2a::{
    Request,
    model::Message,
    skill::{DataPart, arguments, artifact_data, data_parts},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::ids;
use crate::view::ServedTool;

/// A message as policies see it.
#[derive(Debug, Default)]
pub(super) struct PolicyMessage {
    /// The arguments, as those of a step of a composition: the only data, or the text of a message
    /// without data. `None`: the message has other data.
    pub(super) arguments: Option<Box<RawValue>>,
    /// The parameters without the arguments and ids.
    pub(super) rest: Option<Box<RawValue>>,
}

/// Reads the arguments of a message.
pub(super) fn read_arguments(request: &Request) -> PolicyMessage {
    let Some(message) = request.message() else { return PolicyMessage::default() };
    let data = data_parts(message, "");
    let arguments = arguments(message, &data);
    let mut rest = Value::Object(request.params.clone());
    // It is that of the gateway.
    if let Some(configuration) = rest.get_mut("configuration").and_then(Value::as_object_mut) {
        configuration.remove("taskPushNotificationConfig");
    }
    if let Some(sent) = rest.get_mut("message") {
        ids::message(sent, &mut |_, id| *id = Value::Null);
        if arguments.is_some()
            && let [only] = data.as_slice()
            && let Some(data) = sent.pointer_mut(&only.pointer)
        {
            *data = Value::Null;
        }
    }
    let raw = |value: Value| to_raw_value(&value).ok();
    PolicyMessage { arguments: arguments.and_then(raw), rest: raw(rest) }
}

/// The data of a message that its skill has a schema for.
pub(super) fn data_for<'a>(served: &ServedTool, request: &'a Request) -> Vec<DataPart<'a>> {
    // The schema of a skill that takes text describes its view as a tool.
    let has_schema = served.tool().input_schema.is_some() && !served.takes_text();
    let message = request.message().filter(|_| has_schema);
    message.map(|message| data_parts(message, "/message")).unwrap_or_default()
}

/// The data of an answer or event that results from a skill: that of a reply and of artifacts.
pub(in super::super) fn data_of_answer(answer: &Value) -> Vec<DataPart<'_>> {
    let message = answer.get("message").and_then(Message::of);
    let artifact = answer.pointer("/artifactUpdate/artifact").and_then(Message::of);
    if let Some(message) = message {
        return data_parts(message, "/message");
    }
    if let Some(artifact) = artifact {
        return data_parts(artifact, "/artifactUpdate/artifact");
    }
    // An answer about a task is the task itself.
    let (task, at) = match answer.get("task") {
        Some(task) => (task, "/task"),
        None => (answer, ""),
    };
    let mut data = task.as_object().map(artifact_data).unwrap_or_default();
    for part in &mut data {
        part.pointer.insert_str(0, at);
    }
    data
}
