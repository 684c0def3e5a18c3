//! The answer that the events of a stream make up.

use serde_json::{Map, Value, json};

/// Applies an event to the answer that consists of the earlier events. Later tasks and messages
/// replace it. A stream may begin with an update of its task.
pub(super) fn apply(answer: &mut Value, event: Value) {
    let Value::Object(mut event) = event else { return };
    let mut update = |name: &str| match event.remove(name) {
        Some(Value::Object(update)) => Some(update),
        _ => None,
    };
    let (status, artifact) = (update("statusUpdate"), update("artifactUpdate"));
    if let Some(mut update) = status {
        let status = update.remove("status").unwrap_or_default();
        if let Some(task) = task_of(answer, &update) {
            task.insert("status".to_owned(), status);
        }
    } else if let Some(mut update) = artifact {
        let artifact = update.remove("artifact").unwrap_or_default();
        if let Some(task) = task_of(answer, &update) {
            add(task, artifact, update.get("append") == Some(&Value::Bool(true)));
        }
    } else {
        *answer = event.into();
    }
}

fn task_of<'a>(
    answer: &'a mut Value,
    update: &Map<String, Value>,
) -> Option<&'a mut Map<String, Value>> {
    if !answer["task"].is_object() {
        let status = json!({ "state": "TASK_STATE_WORKING" });
        *answer = json!({ "task": { "id": update.get("taskId"), "status": status } });
    }
    answer["task"].as_object_mut()
}

/// Adds an artifact, replaces the one with its id, or appends its parts to that one.
fn add(task: &mut Map<String, Value>, mut artifact: Value, appends: bool) {
    let artifacts = task.entry("artifacts").or_insert(Value::Null);
    if !artifacts.is_array() {
        *artifacts = json!([]);
    }
    let Some(artifacts) = artifacts.as_array_mut() else { return };
    let id = artifact.get("artifactId").filter(|id| id.is_string()).cloned();
    let has_id = |known: &&mut Value| id.is_some() && known.get("artifactId") == id.as_ref();
    let Some(known) = artifacts.iter_mut().find(has_id) else {
        artifacts.push(artifact);
        return;
    };
    if !appends {
        *known = artifact;
    } else if let Some(Value::Array(more)) = artifact.get_mut("parts").map(Value::take) {
        match known.get_mut("parts").and_then(Value::as_array_mut) {
            Some(parts) => parts.extend(more),
            None => known["parts"] = more.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str) -> Value {
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": state } } })
    }

    fn artifact(id: &str, text: &str, appends: bool) -> Value {
        let artifact = json!({ "artifactId": id, "parts": [{ "text": text }] });
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact,
            "append": appends, "lastChunk": true } })
    }

    fn assembled(events: impl IntoIterator<Item = Value>) -> Value {
        let mut answer = Value::Null;
        events.into_iter().for_each(|event| apply(&mut answer, event));
        answer
    }

    /// The texts of each artifact.
    fn texts(answer: &Value) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let artifacts = answer["task"]["artifacts"].as_array().unwrap().iter();
        let of = |artifact: &Value| {
            let parts = artifact["parts"].as_array().unwrap().iter();
            (
                text(&artifact["artifactId"]),
                parts.map(|part| text(&part["text"])).collect::<String>(),
            )
        };
        artifacts.map(of).collect()
    }

    #[test]
    fn artifacts_are_appended_or_replaced_by_id() {
        let task = json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_WORKING" } } });
        let answer = assembled([
            task,
            artifact("a", "1", false),
            artifact("b", "old", false),
            artifact("a", "2", true),
            artifact("b", "new", false),
            artifact("c", "only", true),
            status("TASK_STATE_COMPLETED"),
        ]);
        let expected = [("a", "12"), ("b", "new"), ("c", "only")];
        assert_eq!(texts(&answer), expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
        assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    }

    #[test]
    fn stream_may_begin_with_an_update() {
        for first in [status("TASK_STATE_WORKING"), artifact("a", "1", false)] {
            let answer = assembled([first]);
            assert_eq!(answer["task"]["id"], "t");
            assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_WORKING");
        }
    }

    #[test]
    fn later_tasks_and_messages_replace_the_answer() {
        let task = json!({ "task": { "id": "t", "artifacts": ["invalid"] } });
        assert_eq!(assembled([artifact("a", "1", false), task.clone()]), task);
        let message = json!({ "message": { "messageId": "m" } });
        assert_eq!(assembled([task.clone(), message.clone()]), message);
        let answer = assembled([task, artifact("a", "1", true)]);
        assert_eq!(answer["task"]["artifacts"][1]["artifactId"], "a");
    }
}
