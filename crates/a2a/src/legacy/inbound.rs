//! From 0.3 to the internal form.

use registry_core::timestamp::Timestamp;
use serde_json::{Value, json};

use super::{Translated, WRAPPED, card, items, list, member, object};
use crate::{
    fields::{self, Shape},
    json::{Object, rename, text},
    model::TaskState,
    operation::Operation,
    untranslatable::{Problem, Untranslatable},
    version::Binding,
};

/// Takes an object of the protocol, without `kind` and with the usual names of its members.
fn model(shape: &Shape, value: Value) -> Translated<Object> {
    let mut object = object(value)?;
    shape.rename_aliases(&mut object)?;
    object.remove("kind");
    Ok(object)
}

/// The parameters of a request.
pub(crate) fn params(binding: Binding, operation: Operation, value: Value) -> Translated<Value> {
    let mut params = model(fields::params(operation), value)?;
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            rename(&mut params, "request", "message");
            member(&mut params, "message", message)?;
            // Protocol Buffers omit `false`.
            let omits_false = binding == Binding::HttpJson && operation == Operation::SendMessage;
            let blocking = omits_false.then_some(false);
            member(&mut params, "configuration", |value| send_configuration(blocking, value))?;
        }
        Operation::ListTasks => {
            member(&mut params, "status", |value| state(&value))?;
            since(&mut params)?;
        }
        Operation::CreatePushConfig => return task_push_config(params.into()),
        Operation::GetPushConfig | Operation::DeletePushConfig => {
            if let Some(task) = params.remove("id") {
                params.insert("taskId".to_owned(), task);
            }
            rename(&mut params, "pushNotificationConfigId", "id");
        }
        Operation::ListPushConfigs => rename(&mut params, "id", "taskId"),
        Operation::GetTask
        | Operation::CancelTask
        | Operation::SubscribeToTask
        | Operation::GetExtendedAgentCard => {}
    }
    Ok(params.into())
}

/// A successful answer.
pub(crate) fn answer(operation: Operation, value: Value) -> Translated<Value> {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage | Operation::SubscribeToTask => {
            event(value)
        }
        Operation::GetTask | Operation::CancelTask => task(value),
        Operation::ListTasks => {
            let mut page = match value {
                Value::Array(tasks) => Object::from_iter([("tasks".to_owned(), tasks.into())]),
                page => model(fields::answer(operation), page)?,
            };
            items(&mut page, "tasks", task)?;
            page.entry("tasks").or_insert_with(|| json!([]));
            page.entry("nextPageToken").or_insert_with(|| "".into());
            Ok(page.into())
        }
        Operation::CreatePushConfig | Operation::GetPushConfig => task_push_config(value),
        Operation::ListPushConfigs => {
            let configs = match value {
                Value::Array(configs) => configs.into(),
                page => {
                    let mut page = model(fields::answer(operation), page)?;
                    page.remove("configs").unwrap_or_else(|| json!([]))
                }
            };
            let configs = list(configs, task_push_config).map_err(|error| error.at("configs"))?;
            Ok(json!({ "configs": configs, "nextPageToken": "" }))
        }
        Operation::GetExtendedAgentCard => card::to_v1(value),
        Operation::DeletePushConfig => Ok(json!({})),
    }
}

/// An event or the answer of `message/send`: an object with `kind`, or one with a member per kind.
pub(crate) fn event(value: Value) -> Translated<Value> {
    let kind = value.get("kind").and_then(Value::as_str);
    let (name, payload) = match kind {
        Some("task") => ("task", task(value)?),
        Some("message") => ("message", message(value)?),
        Some("status-update") => ("statusUpdate", status_update(value)?),
        Some("artifact-update") => ("artifactUpdate", artifact_update(value)?),
        Some(_) => return Err(Untranslatable::new(Problem::Payload).at("kind")),
        None => {
            let mut event = model(&fields::EVENT, value)?;
            rename(&mut event, "msg", "message");
            member(&mut event, "task", task)?;
            member(&mut event, "message", message)?;
            member(&mut event, "statusUpdate", status_update)?;
            member(&mut event, "artifactUpdate", artifact_update)?;
            return Ok(event.into());
        }
    };
    Ok(Object::from_iter([(name.to_owned(), payload)]).into())
}

fn message(value: Value) -> Translated<Value> {
    let mut message = model(&fields::MESSAGE, value)?;
    rename(&mut message, "content", "parts");
    member(&mut message, "role", |value| role(&value))?;
    items(&mut message, "parts", part)?;
    Ok(message.into())
}

fn role(value: &Value) -> Translated<Value> {
    match value.as_str() {
        Some("user" | "ROLE_USER") => Ok("ROLE_USER".into()),
        Some("agent" | "ROLE_AGENT") => Ok("ROLE_AGENT".into()),
        _ => Err(Untranslatable::new(Problem::Role)),
    }
}

fn state(value: &Value) -> Translated<Value> {
    let state = value.as_str().and_then(TaskState::parse);
    state.map(|state| state.name().into()).ok_or_else(|| Untranslatable::new(Problem::State))
}

fn part(value: Value) -> Translated<Value> {
    let kind = value.get("kind").and_then(Value::as_str).map(str::to_owned);
    let mut part = model(&fields::PART, value)?;
    let has = |name: &str| part.get(name).is_some_and(|value| !value.is_null());
    let names = ["text", "file", "data"].into_iter().filter(|name| has(name));
    let names: Vec<_> = names.collect();
    let is_proto = kind.is_none();
    let kind = match (kind.as_deref(), names.as_slice()) {
        (Some(kind), _) if names.contains(&kind) => kind,
        (None, [only]) => only,
        _ => return Err(Untranslatable::new(Problem::Part)),
    };
    match kind {
        "file" => file(&mut part)?,
        "data" => data(&mut part, is_proto),
        _ if part["text"].is_string() => {}
        _ => return Err(Untranslatable::new(Problem::Type("a string")).at("text")),
    }
    Ok(part.into())
}

/// Moves the members of `file` to the part. Unknown ones are lost.
fn file(part: &mut Object) -> Translated<()> {
    let file = part.remove("file").unwrap_or_default();
    let mut file = model(&fields::FILE, file).map_err(|error| error.at("file"))?;
    rename(&mut file, "fileWithBytes", "bytes");
    rename(&mut file, "fileWithUri", "uri");
    rename(&mut file, "mimeType", "mediaType");
    let (bytes, uri) = (file.remove("bytes"), file.remove("uri"));
    let content = match (bytes, uri.filter(|uri| !uri.is_null())) {
        (None | Some(Value::Null), Some(uri)) => ("url", uri),
        (Some(bytes), None) => ("raw", bytes),
        _ => return Err(Untranslatable::new(Problem::Part).at("file")),
    };
    for (name, value) in [
        (content.0, Some(content.1)),
        ("mediaType", file.remove("mediaType")),
        ("filename", file.remove("name")),
    ] {
        match value {
            None | Some(Value::Null) => {}
            Some(value) if value.is_string() => drop(part.insert(name.to_owned(), value)),
            Some(_) => return Err(Untranslatable::new(Problem::Type("a string")).at("file")),
        }
    }
    Ok(())
}

/// Unwraps data that is not an object, and the message `DataPart` of the Protocol Buffers.
fn data(part: &mut Object, is_proto: bool) {
    let mut data = part.remove("data").unwrap_or_default();
    let metadata = part.get_mut("metadata").and_then(Value::as_object_mut);
    let is_wrapped = metadata.as_ref().is_some_and(|m| m.get(WRAPPED) == Some(&true.into()));
    let inner = |data: &mut Value, name: &str| {
        let object = data.as_object_mut().filter(|object| object.len() == 1)?;
        object.remove(name)
    };
    if is_proto && data.get("data").is_some_and(Value::is_object) {
        data = inner(&mut data, "data").unwrap_or(data);
    }
    if is_wrapped && let Some(value) = inner(&mut data, "value") {
        data = value;
        if let Some(metadata) = metadata {
            metadata.remove(WRAPPED);
            if metadata.is_empty() {
                part.remove("metadata");
            }
        }
    }
    part.insert("data".to_owned(), data);
}

/// A task.
pub(crate) fn task(value: Value) -> Translated<Value> {
    let mut task = model(&fields::TASK, value)?;
    member(&mut task, "status", status)?;
    items(&mut task, "artifacts", artifact)?;
    items(&mut task, "history", message)?;
    without_empty_context(&mut task);
    Ok(task.into())
}

/// An agent without contexts has none in 1.0 and an empty one in 0.3.
fn without_empty_context(object: &mut Object) {
    if text(object, "contextId") == Some("") {
        object.remove("contextId");
    }
}

fn status(value: Value) -> Translated<Value> {
    let mut status = model(&fields::STATUS, value)?;
    rename(&mut status, "update", "message");
    member(&mut status, "state", |value| state(&value))?;
    member(&mut status, "message", message)?;
    if let Some(time) = text(&status, "timestamp") {
        match timestamp(time) {
            Some(time) => drop(status.insert("timestamp".to_owned(), time.into())),
            // 1.0 peers reject a whole task with an invalid time.
            None => drop(status.remove("timestamp")),
        }
    }
    Ok(status.into())
}

/// The time in UTC. Some agents omit the time zone.
fn timestamp(text: &str) -> Option<String> {
    if text.ends_with('Z') && Timestamp::parse(text).is_ok() {
        return Some(text.to_owned());
    }
    let time = Timestamp::parse(text).or_else(|_| Timestamp::parse(&format!("{text}Z")));
    time.ok().map(|time| time.to_string())
}

fn artifact(value: Value) -> Translated<Value> {
    let mut artifact = model(&fields::ARTIFACT, value)?;
    items(&mut artifact, "parts", part)?;
    Ok(artifact.into())
}

fn status_update(value: Value) -> Translated<Value> {
    let mut update = model(&fields::STATUS_UPDATE, value)?;
    update.remove("final");
    member(&mut update, "status", status)?;
    Ok(update.into())
}

fn artifact_update(value: Value) -> Translated<Value> {
    let mut update = model(&fields::ARTIFACT_UPDATE, value)?;
    member(&mut update, "artifact", artifact)?;
    Ok(update.into())
}

/// `blocking` is the value of a missing member.
fn send_configuration(blocking: Option<bool>, value: Value) -> Translated<Value> {
    let mut configuration = model(&fields::CONFIGURATION, value)?;
    let sent = configuration.remove("blocking").as_ref().and_then(Value::as_bool);
    if let Some(blocking) = sent.or(blocking) {
        configuration.insert("returnImmediately".to_owned(), (!blocking).into());
    }
    rename(&mut configuration, "pushNotification", "pushNotificationConfig");
    if let Some(config) = configuration.remove("pushNotificationConfig").filter(|c| !c.is_null()) {
        let config = push_config(config).map_err(|error| error.at("pushNotificationConfig"))?;
        configuration.insert("taskPushNotificationConfig".to_owned(), config.into());
    }
    Ok(configuration.into())
}

fn push_config(value: Value) -> Translated<Object> {
    let mut config = model(&fields::PUSH_CONFIG, value)?;
    member(&mut config, "authentication", |value| {
        let mut authentication = model(&fields::AUTHENTICATION, value)?;
        let schemes = authentication.get("schemes").and_then(Value::as_array);
        let first = schemes.and_then(|schemes| schemes.first()).cloned();
        // Further schemes are kept as an unknown member.
        if schemes.is_some_and(|schemes| schemes.len() < 2) {
            authentication.remove("schemes");
        }
        if let Some(first) = first {
            authentication.insert("scheme".to_owned(), first);
        }
        Ok(authentication.into())
    })?;
    Ok(config)
}

/// A configuration with its task: `taskId` over JSON-RPC, `name` in the Protocol Buffers, and a
/// `parent` in the body of HTTP+JSON.
fn task_push_config(value: Value) -> Translated<Value> {
    let mut outer = model(&fields::PUSH_CONFIG, value)?;
    if let Some(Value::Object(inner)) = outer.remove("config") {
        let inner = model(&fields::PUSH_CONFIG, inner.into());
        outer.extend(inner.map_err(|error| error.at("config"))?);
    }
    let config = outer.remove("pushNotificationConfig").unwrap_or_else(|| json!({}));
    let mut config = push_config(config).map_err(|error| error.at("pushNotificationConfig"))?;
    let (parent, name) = (outer.remove("parent"), outer.remove("name"));
    let id = outer.remove("configId").filter(|id| id != "");
    let mut path = name.as_ref().or(parent.as_ref()).and_then(Value::as_str).map(|path| {
        let mut steps = path.split('/').filter(|step| !step.is_empty());
        (steps.nth(1).map(str::to_owned), steps.nth(1).map(str::to_owned))
    });
    let task = outer.remove("taskId");
    let task = task.or_else(|| path.as_mut()?.0.take().map(Value::from));
    let id = id.or_else(|| path.as_mut()?.1.take().map(Value::from));
    if let Some(task) = task {
        config.insert("taskId".to_owned(), task);
    }
    if let Some(id) = id
        && !config.contains_key("id")
    {
        config.insert("id".to_owned(), id);
    }
    outer.extend(config);
    Ok(outer.into())
}

/// `lastUpdatedAfter` of lists: milliseconds since the epoch.
fn since(params: &mut Object) -> Translated<()> {
    let Some(since) = params.remove("lastUpdatedAfter").filter(|since| !since.is_null()) else {
        return Ok(());
    };
    let millis = since.as_i64().ok_or_else(|| {
        Untranslatable::new(Problem::Type("an integer of milliseconds")).at("lastUpdatedAfter")
    })?;
    let time = Timestamp::from_millis(millis).to_string();
    params.insert("statusTimestampAfter".to_owned(), time.into());
    Ok(())
}
