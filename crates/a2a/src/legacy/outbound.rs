//! From the internal form to 0.3.

use registry_core::timestamp::Timestamp;
use serde_json::{Value, json};

use super::{Translated, WRAPPED, card, items, list, member, object};
use crate::{
    fields,
    json::{Object, filled, rename, text},
    model::TaskState,
    operation::Operation,
    untranslatable::{Problem, Untranslatable},
    version::Binding,
};

/// Whether objects have the JSON form of the Protocol Buffers.
fn is_proto(binding: Binding) -> bool {
    binding != Binding::JsonRpc
}

fn inexpressible(what: &'static str) -> Untranslatable {
    Untranslatable::new(Problem::Inexpressible(what))
}

/// The parameters of a request.
pub(crate) fn params(
    binding: Binding,
    operation: Operation,
    mut params: Object,
) -> Translated<Value> {
    params.remove("tenant");
    if is_proto(binding) {
        // Strict readers of the Protocol Buffers reject unknown members.
        fields::params(operation).retain_known(&mut params);
    }
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            member(&mut params, "message", |value| message(binding, value))?;
            // Agents of 0.3 differ in their default.
            let has_none = params.get("configuration").is_none_or(Value::is_null);
            if operation == Operation::SendMessage && has_none {
                params.insert("configuration".to_owned(), json!({}));
            }
            member(&mut params, "configuration", |value| {
                send_configuration(binding, operation, value)
            })?;
        }
        Operation::ListTasks => {
            member(&mut params, "status", |value| state(binding, &value))?;
            since(&mut params)?;
        }
        Operation::CreatePushConfig => return create_push_config(binding, params),
        Operation::GetPushConfig | Operation::DeletePushConfig => {
            rename(&mut params, "id", "pushNotificationConfigId");
            rename(&mut params, "taskId", "id");
        }
        Operation::ListPushConfigs => {
            params.remove("pageSize"); // 0.3 returns all configurations
            if filled(&params, "pageToken").is_some() {
                return Err(inexpressible("pages of configurations").at("pageToken"));
            }
            params.remove("pageToken");
            rename(&mut params, "taskId", "id");
        }
        Operation::GetTask
        | Operation::CancelTask
        | Operation::SubscribeToTask
        | Operation::GetExtendedAgentCard => {}
    }
    Ok(params.into())
}

/// A successful answer.
pub(crate) fn answer(binding: Binding, operation: Operation, value: Value) -> Translated<Value> {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage | Operation::SubscribeToTask => {
            event(binding, value)
        }
        Operation::GetTask | Operation::CancelTask => task(binding, value),
        Operation::ListTasks => {
            let mut page = object(value)?;
            items(&mut page, "tasks", |value| task(binding, value))?;
            Ok(page.into())
        }
        Operation::CreatePushConfig | Operation::GetPushConfig => {
            task_push_config(binding, object(value)?)
        }
        Operation::ListPushConfigs => {
            let mut page = object(value)?;
            if filled(&page, "nextPageToken").is_some() {
                return Err(inexpressible("pages of configurations").at("nextPageToken"));
            }
            let configs = page.remove("configs").unwrap_or_else(|| json!([]));
            let configs = list(configs, |value| task_push_config(binding, object(value)?))
                .map_err(|error| error.at("configs"))?;
            Ok(if is_proto(binding) { json!({ "configs": configs }) } else { configs })
        }
        Operation::GetExtendedAgentCard => card::to_v03(value),
        Operation::DeletePushConfig => Ok(if is_proto(binding) { json!({}) } else { Value::Null }),
    }
}

/// An event or the answer of `message/send`.
pub(crate) fn event(binding: Binding, value: Value) -> Translated<Value> {
    let mut event = object(value)?;
    let names = ["task", "message", "statusUpdate", "artifactUpdate"];
    let name = names.into_iter().find(|name| event.get(*name).is_some_and(Value::is_object));
    let name = name.ok_or_else(|| Untranslatable::new(Problem::Payload))?;
    let value = event.remove(name).unwrap_or_default();
    let payload = match name {
        "task" => task(binding, value),
        "message" => message(binding, value),
        "statusUpdate" => status_update(binding, value),
        _ => artifact_update(binding, value),
    };
    let payload = payload.map_err(|error| error.at(name))?;
    if is_proto(binding) {
        event.insert(name.to_owned(), payload);
        return Ok(event.into());
    }
    Ok(payload)
}

/// Marks an object with its kind over JSON-RPC.
fn marked(binding: Binding, kind: &str, mut object: Object) -> Value {
    if !is_proto(binding) {
        object.insert("kind".to_owned(), kind.into());
    }
    object.into()
}

fn message(binding: Binding, value: Value) -> Translated<Value> {
    let mut message = object(value)?;
    member(&mut message, "role", |role| match role.as_str() {
        Some("ROLE_USER" | "ROLE_AGENT") if is_proto(binding) => Ok(role),
        Some("ROLE_USER") => Ok("user".into()),
        Some("ROLE_AGENT") => Ok("agent".into()),
        _ => Err(Untranslatable::new(Problem::Role)),
    })?;
    items(&mut message, "parts", |value| part(binding, value))?;
    if is_proto(binding) {
        rename(&mut message, "parts", "content");
        message.remove("referenceTaskIds");
    }
    Ok(marked(binding, "message", message))
}

fn part(binding: Binding, value: Value) -> Translated<Value> {
    let mut part = object(value)?;
    let is_set = |name: &&str| part.get(*name).is_some_and(Value::is_string);
    let mut names: Vec<_> = ["text", "raw", "url"].into_iter().filter(is_set).collect();
    names.extend(part.contains_key("data").then_some("data"));
    let [name] = names[..] else { return Err(Untranslatable::new(Problem::Part)) };
    let kind = match name {
        "raw" | "url" => {
            file(binding, &mut part, name);
            "file"
        }
        "data" => {
            data(binding, &mut part)?;
            "data"
        }
        _ => "text",
    };
    if is_proto(binding) && kind != "file" {
        // Unknown members in 0.3.
        part.remove("mediaType");
        part.remove("filename");
    }
    Ok(marked(binding, kind, part))
}

fn file(binding: Binding, part: &mut Object, name: &str) {
    let mut file = Object::new();
    let content = match (is_proto(binding), name) {
        (true, "raw") => "fileWithBytes",
        (true, _) => "fileWithUri",
        (false, "raw") => "bytes",
        (false, _) => "uri",
    };
    for (from, to) in [(name, content), ("mediaType", "mimeType"), ("filename", "name")] {
        if let Some(value) = part.remove(from) {
            file.insert(to.to_owned(), value);
        }
    }
    part.insert("file".to_owned(), file.into());
}

/// Data is an object in 0.3.
fn data(binding: Binding, part: &mut Object) -> Translated<()> {
    let mut data = part.remove("data").unwrap_or_default();
    if !data.is_object() {
        data = json!({ "value": data });
        let metadata = part.entry("metadata").or_insert_with(|| json!({}));
        if metadata.is_null() {
            *metadata = json!({});
        }
        let metadata = metadata.as_object_mut();
        let metadata = metadata
            .ok_or_else(|| Untranslatable::new(Problem::Type("an object")).at("metadata"))?;
        metadata.insert(WRAPPED.to_owned(), true.into());
    }
    let data = if is_proto(binding) { json!({ "data": data }) } else { data };
    part.insert("data".to_owned(), data);
    Ok(())
}

fn state(binding: Binding, value: &Value) -> Translated<Value> {
    let state = value.as_str().and_then(TaskState::parse);
    let state = state.ok_or_else(|| Untranslatable::new(Problem::State))?;
    Ok(match (is_proto(binding), state) {
        (true, TaskState::Canceled) => "TASK_STATE_CANCELLED",
        (true, state) => state.name(),
        (false, state) => state.legacy_name(),
    }
    .into())
}

fn task(binding: Binding, value: Value) -> Translated<Value> {
    let mut task = object(value)?;
    member(&mut task, "status", |value| status(binding, value))?;
    items(&mut task, "artifacts", |value| artifact(binding, value))?;
    items(&mut task, "history", |value| message(binding, value))?;
    with_context(&mut task);
    Ok(marked(binding, "task", task))
}

/// The context is required in 0.3. An invented one could be used in a message.
fn with_context(object: &mut Object) {
    if text(object, "contextId").is_none() {
        object.insert("contextId".to_owned(), "".into());
    }
}

fn status(binding: Binding, value: Value) -> Translated<Value> {
    let mut status = object(value)?;
    member(&mut status, "state", |value| state(binding, &value))?;
    member(&mut status, "message", |value| message(binding, value))?;
    Ok(status.into())
}

fn artifact(binding: Binding, value: Value) -> Translated<Value> {
    let mut artifact = object(value)?;
    items(&mut artifact, "parts", |value| part(binding, value))?;
    Ok(artifact.into())
}

/// `final` is required in 0.3: a client that waits for it would not answer a question.
fn status_update(binding: Binding, value: Value) -> Translated<Value> {
    let mut update = object(value)?;
    let state = update.get("status").and_then(|status| status.get("state"));
    let state = state.and_then(Value::as_str).and_then(TaskState::parse);
    let is_final = |state: TaskState| state.is_terminal() || state == TaskState::InputRequired;
    update.insert("final".to_owned(), state.is_some_and(is_final).into());
    member(&mut update, "status", |value| status(binding, value))?;
    Ok(marked(binding, "status-update", update))
}

fn artifact_update(binding: Binding, value: Value) -> Translated<Value> {
    let mut update = object(value)?;
    member(&mut update, "artifact", |value| artifact(binding, value))?;
    Ok(marked(binding, "artifact-update", update))
}

fn send_configuration(binding: Binding, operation: Operation, value: Value) -> Translated<Value> {
    let mut configuration = object(value)?;
    let immediately = configuration.remove("returnImmediately").as_ref().and_then(Value::as_bool);
    if operation == Operation::SendMessage || immediately.is_some() {
        let is_blocking = !immediately.unwrap_or_default();
        configuration.insert("blocking".to_owned(), is_blocking.into());
    }
    member(&mut configuration, "taskPushNotificationConfig", |value| push_config(object(value)?))?;
    if let Some(config) = configuration.remove("taskPushNotificationConfig") {
        let name = if is_proto(binding) { "pushNotification" } else { "pushNotificationConfig" };
        configuration.insert(name.to_owned(), config);
    }
    Ok(configuration.into())
}

fn push_config(mut config: Object) -> Translated<Value> {
    config.remove("tenant");
    member(&mut config, "authentication", |value| {
        let mut authentication = object(value)?;
        let scheme = authentication.remove("scheme");
        let kept = authentication.get("schemes").and_then(|schemes| schemes.get(0));
        // Callers of 1.0 may send other schemes than the one that the gateway uses.
        if kept.is_none() || kept != scheme.as_ref() {
            let schemes: Vec<_> = scheme.into_iter().collect();
            authentication.insert("schemes".to_owned(), schemes.into());
        }
        Ok(authentication.into())
    })?;
    Ok(config.into())
}

fn task_push_config(binding: Binding, mut config: Object) -> Translated<Value> {
    let task = config.remove("taskId").unwrap_or_default();
    let id = text(&config, "id").unwrap_or_default().to_owned();
    let config = push_config(config)?;
    if !is_proto(binding) {
        return Ok(json!({ "taskId": task, "pushNotificationConfig": config }));
    }
    let task = task.as_str().unwrap_or_default();
    let name = format!("tasks/{task}/pushNotificationConfigs/{id}");
    Ok(json!({ "name": name, "pushNotificationConfig": config }))
}

fn create_push_config(binding: Binding, config: Object) -> Translated<Value> {
    if !is_proto(binding) {
        return task_push_config(binding, config);
    }
    let parent = format!("tasks/{}", text(&config, "taskId").unwrap_or_default());
    let id = text(&config, "id").unwrap_or_default().to_owned();
    let config = task_push_config(binding, config)?;
    Ok(json!({ "parent": parent, "configId": id, "config": config }))
}

fn since(params: &mut Object) -> Translated<()> {
    let Some(since) = params.remove("statusTimestampAfter").filter(|since| !since.is_null()) else {
        return Ok(());
    };
    let time = since.as_str().and_then(|text| Timestamp::parse(text).ok());
    let time = time.ok_or_else(|| {
        Untranslatable::new(Problem::Type("an RFC 3339 time")).at("statusTimestampAfter")
    })?;
    params.insert("lastUpdatedAfter".to_owned(), time.as_millis().into());
    Ok(())
}
