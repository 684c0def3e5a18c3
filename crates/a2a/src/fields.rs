//! The fields of the protocol's objects, and their other names.
//!
//! Readers accept more names than the specification defines: those of Protocol Buffers' JSON accept
//! `task_id` for `taskId`, some ignore the case, and SDKs of both versions read members of the
//! other one. A value under such a name would pass all checks of the gateway unread. Therefore each
//! value has one name in its internal form.

use serde_json::Value;

use crate::{
    json::Object,
    operation::Operation,
    untranslatable::{Problem, Untranslatable},
};

/// The fields of one kind of object.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Fields whose content has no fields of the protocol, for instance metadata and data.
    plain: &'static [&'static str],
    /// Fields with an object of the protocol, or a list of them.
    nested: &'static [(&'static str, &'static Shape)],
    /// Members of this object in other dialects, which the internal form does not have.
    foreign: &'static [&'static str],
}

pub(crate) static PART: Shape = Shape {
    plain: &["text", "raw", "url", "data", "metadata", "filename", "mediaType"],
    nested: &[],
    foreign: &["kind", "file"],
};

/// The content of `file` in 0.3.
pub(crate) static FILE: Shape = Shape {
    plain: &["bytes", "uri", "fileWithBytes", "fileWithUri", "mimeType", "mediaType", "name"],
    nested: &[],
    foreign: &[],
};

pub(crate) static MESSAGE: Shape = Shape {
    plain: &[
        "messageId",
        "contextId",
        "taskId",
        "role",
        "metadata",
        "extensions",
        "referenceTaskIds",
    ],
    nested: &[("parts", &PART)],
    foreign: &["kind", "content"],
};

/// `schemes` of 0.3 is kept, because 1.0 has no place for further schemes.
pub(crate) static AUTHENTICATION: Shape =
    Shape { plain: &["scheme", "credentials", "schemes"], nested: &[], foreign: &[] };

pub(crate) static PUSH_CONFIG: Shape = Shape {
    plain: &["tenant", "id", "taskId", "url", "token"],
    nested: &[("authentication", &AUTHENTICATION)],
    foreign: &[
        "name",
        "parent",
        "config",
        "configId",
        "pushNotificationConfig",
        "pushNotificationConfigId",
    ],
};

pub(crate) static CONFIGURATION: Shape = Shape {
    plain: &["acceptedOutputModes", "historyLength", "returnImmediately"],
    nested: &[("taskPushNotificationConfig", &PUSH_CONFIG)],
    foreign: &["blocking", "pushNotification", "pushNotificationConfig"],
};

static SEND: Shape = Shape {
    plain: &["tenant", "metadata"],
    nested: &[("message", &MESSAGE), ("configuration", &CONFIGURATION)],
    foreign: &["request"],
};

static OF_TASK: Shape = Shape {
    plain: &["tenant", "id", "historyLength", "metadata"],
    nested: &[],
    foreign: &["name"],
};

static LIST_TASKS: Shape = Shape {
    plain: &[
        "tenant",
        "contextId",
        "status",
        "pageSize",
        "pageToken",
        "historyLength",
        "statusTimestampAfter",
        "includeArtifacts",
    ],
    nested: &[],
    foreign: &["lastUpdatedAfter"],
};

static OF_PUSH_CONFIG: Shape = Shape {
    plain: &["tenant", "taskId", "id"],
    nested: &[],
    foreign: &["name", "pushNotificationConfigId"],
};

static LIST_PUSH_CONFIGS: Shape = Shape {
    plain: &["tenant", "taskId", "pageSize", "pageToken"],
    nested: &[],
    foreign: &["id", "parent"],
};

static EXTENDED_CARD: Shape = Shape { plain: &["tenant"], nested: &[], foreign: &[] };

pub(crate) static STATUS: Shape = Shape {
    plain: &["state", "timestamp"],
    nested: &[("message", &MESSAGE)],
    foreign: &["update"],
};

pub(crate) static ARTIFACT: Shape = Shape {
    plain: &["artifactId", "name", "description", "metadata", "extensions"],
    nested: &[("parts", &PART)],
    foreign: &[],
};

pub(crate) static TASK: Shape = Shape {
    plain: &["id", "contextId", "metadata"],
    nested: &[("status", &STATUS), ("artifacts", &ARTIFACT), ("history", &MESSAGE)],
    foreign: &["kind"],
};

pub(crate) static STATUS_UPDATE: Shape = Shape {
    plain: &["taskId", "contextId", "metadata"],
    nested: &[("status", &STATUS)],
    foreign: &["kind", "final"],
};

pub(crate) static ARTIFACT_UPDATE: Shape = Shape {
    plain: &["taskId", "contextId", "append", "lastChunk", "metadata"],
    nested: &[("artifact", &ARTIFACT)],
    foreign: &["kind"],
};

/// An event of a stream, or the answer of `SendMessage`.
pub(crate) static EVENT: Shape = Shape {
    plain: &[],
    nested: &[
        ("task", &TASK),
        ("message", &MESSAGE),
        ("statusUpdate", &STATUS_UPDATE),
        ("artifactUpdate", &ARTIFACT_UPDATE),
    ],
    foreign: &["kind", "msg"],
};

static TASKS: Shape = Shape {
    plain: &["nextPageToken", "pageSize", "totalSize"],
    nested: &[("tasks", &TASK)],
    foreign: &[],
};

static PUSH_CONFIGS: Shape =
    Shape { plain: &["nextPageToken"], nested: &[("configs", &PUSH_CONFIG)], foreign: &[] };

/// Agent cards and empty answers: their members are not read here.
static OPAQUE: Shape = Shape { plain: &[], nested: &[], foreign: &[] };

/// The parameters of an operation.
pub(crate) fn params(operation: Operation) -> &'static Shape {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => &SEND,
        Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => &OF_TASK,
        Operation::ListTasks => &LIST_TASKS,
        Operation::CreatePushConfig => &PUSH_CONFIG,
        Operation::GetPushConfig | Operation::DeletePushConfig => &OF_PUSH_CONFIG,
        Operation::ListPushConfigs => &LIST_PUSH_CONFIGS,
        Operation::GetExtendedAgentCard => &EXTENDED_CARD,
    }
}

/// The answer of an operation.
pub(crate) fn answer(operation: Operation) -> &'static Shape {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage | Operation::SubscribeToTask => {
            &EVENT
        }
        Operation::GetTask | Operation::CancelTask => &TASK,
        Operation::ListTasks => &TASKS,
        Operation::CreatePushConfig | Operation::GetPushConfig => &PUSH_CONFIG,
        Operation::ListPushConfigs => &PUSH_CONFIGS,
        Operation::DeletePushConfig | Operation::GetExtendedAgentCard => &OPAQUE,
    }
}

impl Shape {
    /// The names of this object in all dialects.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let nested = self.nested.iter().map(|(name, _)| *name);
        self.plain.iter().copied().chain(nested).chain(self.foreign.iter().copied())
    }

    /// Renames the members of one object that have another spelling of their name. Two members with
    /// one name are invalid, because two readers could read two different values.
    pub(crate) fn rename_aliases(&self, object: &mut Object) -> Result<(), Untranslatable> {
        let is_exact = |found: &str| self.names().any(|name| name == found);
        let others = object.keys().filter(|found| !is_exact(found));
        let aliases: Vec<(String, &'static str)> = others
            .filter_map(|found| {
                let name = self.names().find(|name| is_same(found, name))?;
                Some((found.clone(), name))
            })
            .collect();
        for (alias, name) in aliases {
            if object.contains_key(name) {
                return Err(Untranslatable::new(Problem::Alias(name)).at(alias));
            }
            if let Some(value) = object.remove(&alias) {
                object.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// Removes the members that the protocol does not define.
    pub(crate) fn retain_known(&self, object: &mut Object) {
        object.retain(|name, value| {
            let nested = self.nested.iter().find(|(known, _)| *known == name.as_str());
            let Some((_, shape)) = nested else { return self.plain.contains(&name.as_str()) };
            match value {
                Value::Object(object) => shape.retain_known(object),
                Value::Array(values) => {
                    let objects = values.iter_mut().filter_map(Value::as_object_mut);
                    objects.for_each(|object| shape.retain_known(object));
                }
                _ => {}
            }
            true
        });
    }

    /// Gives each member of a value in its internal form its only name, and removes members of other
    /// dialects. Members that no dialect defines are kept.
    pub(crate) fn normalize(&self, value: &mut Value) -> Result<(), Untranslatable> {
        match value {
            Value::Object(object) => {
                self.rename_aliases(object)?;
                // Most objects have few members, so that a search in them costs less than a hash.
                if object.keys().any(|name| self.foreign.contains(&name.as_str())) {
                    object.retain(|name, _| !self.foreign.contains(&name.as_str()));
                }
                object.iter_mut().try_for_each(|(name, value)| {
                    let nested = self.nested.iter().find(|(known, _)| name == known);
                    let normalized = nested.map_or(Ok(()), |(_, shape)| shape.normalize(value));
                    normalized.map_err(|error| error.at(name))
                })
            }
            Value::Array(values) => {
                let mut values = values.iter_mut().enumerate();
                values.try_for_each(|(i, v)| self.normalize(v).map_err(|error| error.at(i)))
            }
            _ => Ok(()),
        }
    }
}

/// Whether two names are equal for a reader that ignores underscores and the case. Both conversions
/// are needed: `ſ` has the upper case `S`, and the Kelvin sign the lower case `k`.
pub(crate) fn is_same(left: &str, right: &str) -> bool {
    fn folded(name: &str) -> impl Iterator<Item = char> {
        let letters = name.chars().filter(|letter| *letter != '_');
        letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase)
    }
    folded(left).eq(folded(right))
}

#[cfg(test)]
mod tests;
