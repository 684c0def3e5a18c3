//! The data of messages and answers, and requests as policies see them.

use a2a::{
    Operation, Request,
    model::Message,
    skill::{DataPart, arguments, artifact_data, data_parts},
};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::ids::TakenIds;
use crate::view::ServedTool;

/// The member of a message's configuration with the endpoint of push notifications.
const PUSH_CONFIG: &str = "taskPushNotificationConfig";

/// A request as policies see it.
#[derive(Debug, Default)]
pub(super) struct PolicyRequest {
    /// The arguments, as those of a step of a composition: the only data, or the text of a message
    /// without data. `None`: the message has other data, or the operation sends none.
    pub(super) arguments: Option<Box<RawValue>>,
    /// The parameters without the arguments and the sealed ids. `None`: the gateway wrote all of them.
    pub(super) rest: Option<Box<RawValue>>,
}

impl PolicyRequest {
    /// Reads a request. The rest is written without a copy of the request, which can be large: the
    /// omitted values are taken out and put back.
    pub(super) fn of(request: &mut Request) -> Self {
        match request.operation {
            Operation::SendMessage | Operation::SendStreamingMessage => of_message(request),
            // The configuration is that of the gateway.
            Operation::CreatePushConfig => Self::default(),
            Operation::GetTask
            | Operation::ListTasks
            | Operation::CancelTask
            | Operation::SubscribeToTask
            | Operation::GetPushConfig
            | Operation::ListPushConfigs
            | Operation::DeletePushConfig
            | Operation::GetExtendedAgentCard => about_task(request),
        }
    }
}

fn about_task(request: &mut Request) -> PolicyRequest {
    let task = request.task_id().map(str::to_owned);
    if task.is_some() {
        request.set_task_id("");
    }
    let rest = to_raw_value(&request.params).ok();
    if let Some(task) = task {
        request.set_task_id(&task);
    }
    PolicyRequest { arguments: None, rest }
}

fn of_message(request: &mut Request) -> PolicyRequest {
    let Some(message) = request.message() else { return PolicyRequest::default() };
    let data = data_parts(message, "");
    let arguments = arguments(message, &data).and_then(|value| to_raw_value(&value).ok());
    let pointer = match data.as_slice() {
        [only] if arguments.is_some() => Some(only.pointer.clone()),
        _ => None,
    };
    let (mut ids, mut data) = (TakenIds::default(), Value::Null);
    if let Some(sent) = request.params.get_mut("message") {
        ids = TakenIds::of_message(sent);
        if let Some(sent) = pointer.as_deref().and_then(|pointer| sent.pointer_mut(pointer)) {
            data = sent.take();
        }
    }
    // It is that of the gateway.
    let push = configuration(request).and_then(|found| found.remove(PUSH_CONFIG));
    let rest = to_raw_value(&request.params).ok();
    if let (Some(push), Some(configuration)) = (push, configuration(request)) {
        configuration.insert(PUSH_CONFIG.to_owned(), push);
    }
    if let Some(sent) = request.params.get_mut("message") {
        ids.put_into_message(sent);
        if let Some(sent) = pointer.as_deref().and_then(|pointer| sent.pointer_mut(pointer)) {
            *sent = data;
        }
    }
    PolicyRequest { arguments, rest }
}

fn configuration(request: &mut Request) -> Option<&mut Map<String, Value>> {
    request.params.get_mut("configuration")?.as_object_mut()
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
    let artifact = answer["artifactUpdate"].get("artifact").and_then(Message::of);
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
