//! The end of a streamed text, which waits for the next event of its artifact: agents split texts
//! anywhere, and inspection must see a value that spans two events.

use a2a::model::Event;
use gateway_protocol::content;
use gateway_upstream::AgentEvent;
use serde_json::{Map, Value, json};

/// The length of a delayed text in bytes: an email address or an access key, and its context.
const TAIL_BYTES: usize = 256;
/// Maximum memory of an event that waits as a whole. A larger one is sent without its text.
const WHOLE_BYTES: usize = 8 * 1024;

/// The delayed text of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail(
    /// A finished event with one text, which is sent if nothing continues it.
    Option<AgentEvent>,
);

impl Tail {
    /// Moves the delayed text to the front of an event that continues it. Returns the delayed event if
    /// it has to be sent before this one.
    pub(super) fn join(&mut self, event: &mut Value) -> Option<AgentEvent> {
        let view = Event::of(event);
        if view.is_some_and(|view| matches!(view, Event::Status { .. }) && !view.is_last()) {
            return None;
        }
        let delayed = self.0.take()?;
        if continues(event, &delayed.event) {
            prepend(event, delayed.event);
            return None;
        }
        Some(delayed)
    }

    /// Takes the end of a text that the next event can continue. Returns the event to send now.
    pub(super) fn delay(&mut self, mut sent: AgentEvent) -> Option<AgentEvent> {
        let is_small = content::value_bytes(&sent.event) <= WHOLE_BYTES;
        let Some(update) = sent.event.get_mut("artifactUpdate") else { return Some(sent) };
        if update.get("lastChunk") == Some(&Value::Bool(true)) {
            return Some(sent);
        }
        let parts = update.pointer_mut("/artifact/parts").and_then(Value::as_array_mut);
        let Some(parts) = parts else { return Some(sent) };
        let count = parts.len();
        let last = parts.last_mut().and_then(|part| part.get_mut("text"));
        let Some(Value::String(text)) = last else { return Some(sent) };
        let start = text.floor_char_boundary(text.len().saturating_sub(TAIL_BYTES));
        if start == 0 && count == 1 && is_small {
            self.0 = Some(sent);
            return None;
        }
        let text = text.split_off(start);
        let event = json!({ "artifactUpdate": {
            "taskId": update["taskId"],
            "contextId": update["contextId"],
            "append": true,
            "artifact": { "artifactId": update["artifact"]["artifactId"], "parts": [{ "text": text }] },
        } });
        self.0 = Some(AgentEvent { event, buffered: sent.buffered.clone() });
        Some(sent)
    }

    /// The delayed event at the end of the stream.
    pub(super) fn take(&mut self) -> Option<AgentEvent> {
        self.0.take()
    }
}

/// Whether an event appends a text to the artifact of a delayed one.
fn continues(event: &Value, delayed: &Value) -> bool {
    let artifact = |event: &Value| event.pointer("/artifactUpdate/artifact/artifactId").cloned();
    event.pointer("/artifactUpdate/append") == Some(&Value::Bool(true))
        && event.pointer("/artifactUpdate/artifact/parts/0/text").is_some_and(Value::is_string)
        && artifact(event) == artifact(delayed)
}

/// Puts a delayed text, and the other members of its artifact, before an event that continues it.
fn prepend(event: &mut Value, mut delayed: Value) {
    if let (Some(Value::String(text)), Some(Value::String(before))) = (
        event.pointer_mut("/artifactUpdate/artifact/parts/0/text"),
        delayed.pointer("/artifactUpdate/artifact/parts/0/text"),
    ) {
        text.insert_str(0, before);
    }
    let append = delayed.pointer("/artifactUpdate/append").cloned();
    if let Some(update) = event.get_mut("artifactUpdate").and_then(Value::as_object_mut) {
        match append {
            Some(append) => update.insert("append".to_owned(), append),
            None => update.remove("append"),
        };
    }
    let (Some(artifact), Some(before)) = (artifact(event), artifact(&mut delayed)) else { return };
    for (name, value) in std::mem::take(before) {
        artifact.entry(name).or_insert(value);
    }
}

fn artifact(event: &mut Value) -> Option<&mut Map<String, Value>> {
    event.pointer_mut("/artifactUpdate/artifact")?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &str, more: Value) -> Value {
        let mut update = json!({ "taskId": "t", "contextId": "c",
            "artifact": { "artifactId": "a", "parts": [{ "text": text }] } });
        let (Value::Object(members), Some(update_members)) = (more, update.as_object_mut()) else {
            panic!("members")
        };
        update_members.extend(members);
        json!({ "artifactUpdate": update })
    }

    /// Sends events. Returns those that clients receive.
    fn sent(events: Vec<Value>) -> Vec<Value> {
        let (mut tail, mut sent) = (Tail::default(), Vec::new());
        for mut event in events {
            sent.extend(tail.join(&mut event));
            sent.extend(tail.delay(AgentEvent { event, buffered: None }));
        }
        sent.extend(tail.take());
        sent.into_iter().map(|sent| sent.event).collect()
    }

    fn append() -> Value {
        json!({ "append": true })
    }

    #[test]
    fn short_chunks_of_one_artifact_are_joined() {
        let received = sent(vec![
            chunk("one ", json!({})),
            chunk("two ", append()),
            chunk("three", json!({ "append": true, "lastChunk": true })),
        ]);
        assert_eq!(received, [chunk("one two three", json!({ "lastChunk": true }))]);
    }

    #[test]
    fn long_text_keeps_its_end_only() {
        let text = "é".repeat(500);
        let received = sent(vec![chunk(&text, json!({}))]);
        let [first, rest] = received.as_slice() else { panic!("{received:?}") };
        assert_eq!(*first, chunk(&"é".repeat(500 - TAIL_BYTES / 2), json!({})));
        assert_eq!(*rest, chunk(&"é".repeat(TAIL_BYTES / 2), append()));
    }

    #[test]
    fn delayed_text_precedes_other_events() {
        let other = |id: &str| {
            let mut other = chunk("other", append());
            other["artifactUpdate"]["artifact"]["artifactId"] = id.into();
            other
        };
        let status = |state: &str| {
            json!({ "statusUpdate": { "taskId": "t", "contextId": "c",
                "status": { "state": state } } })
        };
        let (working, completed) = (status("TASK_STATE_WORKING"), status("TASK_STATE_COMPLETED"));
        let first = || chunk("one", json!({}));
        assert_eq!(sent(vec![first(), other("b")]), [first(), other("b")]);
        assert_eq!(sent(vec![first(), completed.clone()]), [first(), completed]);
        assert_eq!(
            sent(vec![first(), working.clone(), chunk("two", append())]),
            [working, chunk("onetwo", json!({}))]
        );
    }
}
