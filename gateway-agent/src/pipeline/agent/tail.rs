//! The end of a streamed text, which waits for the next event of its artifact: agents split texts
//! anywhere, and inspection must see a value that spans two events. An event that continues a text that
//! the caller has is inspected with the end of that text.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    slice,
};

use a2a::model::Event;
use gateway_protocol::content;
use gateway_upstream::AgentEvent;
use serde_json::{Map, Value, json};

/// The length of a delayed text in bytes: an email address or an access key, and its context.
const TAIL_BYTES: usize = 256;
/// Maximum memory of an event that waits as a whole. A larger one is sent without its text.
const WHOLE_BYTES: usize = 8 * 1024;
/// Maximum artifacts of a stream whose sent texts are kept.
const MAX_ARTIFACTS: usize = 64;

/// The delayed text of a stream, and the ends of the sent ones.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// A finished event with one text, which is sent if nothing continues it.
    delayed: Option<AgentEvent>,
    /// The latest one is the last.
    sent: Vec<SentText>,
    /// The sent text that [`Tail::join`] has put before the text of the current event.
    overlap: Option<String>,
}

/// The end of the text of an artifact that the caller has.
#[derive(Debug)]
struct SentText {
    /// The hash of the artifact's id, which can be long. A collision only inspects more text.
    artifact: u64,
    end: String,
}

impl Tail {
    /// Moves the delayed text to the front of an event that continues it, or copies the sent one.
    /// Returns the delayed event if it has to be sent before this one.
    pub(super) fn join(&mut self, event: &mut Value) -> Option<AgentEvent> {
        let has_artifacts = event.pointer("/task/artifacts").is_some();
        let passes = |view: Event<'_>| match view {
            Event::Status { .. } => !view.is_last(),
            Event::Task(_) => !view.is_last() && !has_artifacts,
            Event::Message(_) | Event::Artifact { .. } => false,
        };
        if Event::of(event).is_some_and(passes) {
            return None;
        }
        let delayed = match self.delayed.take() {
            Some(delayed) if continues(event, &delayed.event) => {
                let text = delayed.event.pointer("/artifactUpdate/artifact/parts/0/text");
                let is_short = text.and_then(Value::as_str).is_some_and(|t| t.len() < TAIL_BYTES);
                prepend(event, delayed.event);
                // The sent text can precede a short one.
                self.overlap = if is_short { self.put_sent_before(event) } else { None };
                return None;
            }
            delayed => delayed,
        };
        if let Some(delayed) = &delayed {
            self.remember(&delayed.event);
        }
        self.overlap = self.put_sent_before(event);
        delayed
    }

    /// Puts the end of the sent text before the text of an event that appends to it.
    fn put_sent_before(&self, event: &mut Value) -> Option<String> {
        if event.pointer("/artifactUpdate/append") != Some(&Value::Bool(true)) {
            return None;
        }
        let artifact = hash_of(event.pointer("/artifactUpdate/artifact")?)?;
        let sent = self.sent.iter().find(|sent| sent.artifact == artifact)?;
        let text = event.pointer_mut("/artifactUpdate/artifact/parts/0/text")?;
        let Value::String(text) = text else { return None };
        text.insert_str(0, &sent.end);
        Some(sent.end.clone())
    }

    /// Removes the sent text from an inspected event. A value that spans both is changed, so only
    /// the unchanged beginning is sent text. Inspection may have moved the text to a later part.
    fn remove_sent(&mut self, event: &mut Value) {
        let Some(overlap) = self.overlap.take() else { return };
        let parts = event.pointer_mut("/artifactUpdate/artifact/parts");
        let parts = parts.and_then(Value::as_array_mut).into_iter().flatten();
        let mut texts = parts.filter_map(|part| match part.get_mut("text") {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        });
        let Some(text) = texts.next() else { return };
        let pairs = text.chars().zip(overlap.chars());
        let common = pairs.take_while(|(now, sent)| now == sent).map(|(now, _)| now.len_utf8());
        let common = common.sum::<usize>();
        text.drain(..common);
    }

    /// Keeps the ends of the texts of an event that the caller receives.
    fn remember(&mut self, event: &Value) {
        let appends = event.pointer("/artifactUpdate/append") == Some(&Value::Bool(true));
        let update = event.pointer("/artifactUpdate/artifact").map(slice::from_ref);
        let artifacts = || event.pointer("/task/artifacts")?.as_array().map(Vec::as_slice);
        for artifact in update.or_else(artifacts).unwrap_or_default() {
            let Some(hash) = hash_of(artifact) else { continue };
            let known = self.sent.iter().position(|sent| sent.artifact == hash);
            let before = known.map(|at| self.sent.remove(at).end).filter(|_| appends);
            let parts = artifact.get("parts").and_then(Value::as_array);
            let last = parts.and_then(|parts| parts.last());
            let Some(text) = last.and_then(|part| part.get("text")?.as_str()) else { continue };
            let mut end = before.unwrap_or_default() + &text[tail_start(text)..];
            end.drain(..tail_start(&end));
            self.sent.push(SentText { artifact: hash, end });
        }
        let excess = self.sent.len().saturating_sub(MAX_ARTIFACTS);
        self.sent.drain(..excess);
    }

    /// Takes the end of a text that the next event can continue, if results are inspected. Returns the
    /// event to send now. A last chunk waits, too, because an agent can append to it.
    pub(super) fn delay(&mut self, mut sent: AgentEvent, is_inspected: bool) -> Option<AgentEvent> {
        self.remove_sent(&mut sent.event);
        if !is_inspected {
            return Some(sent);
        }
        let sent = self.split(sent)?;
        self.remember(&sent.event);
        Some(sent)
    }

    /// Delays the end of the text of an event. Returns the rest.
    fn split(&mut self, mut sent: AgentEvent) -> Option<AgentEvent> {
        let is_small = content::value_bytes(&sent.event) <= WHOLE_BYTES;
        let Some(update) = sent.event.get_mut("artifactUpdate") else { return Some(sent) };
        let parts = update.pointer_mut("/artifact/parts").and_then(Value::as_array_mut);
        let Some(parts) = parts else { return Some(sent) };
        let count = parts.len();
        let last = parts.last_mut().and_then(|part| part.get_mut("text"));
        let Some(Value::String(text)) = last else { return Some(sent) };
        let start = tail_start(text);
        if start == 0 && count == 1 && is_small {
            self.delayed = Some(sent);
            return None;
        }
        let text = text.split_off(start);
        let last_chunk = update.as_object_mut().and_then(|update| update.remove("lastChunk"));
        let mut event = json!({ "artifactUpdate": {
            "taskId": update["taskId"],
            "contextId": update["contextId"],
            "append": true,
            "artifact": { "artifactId": update["artifact"]["artifactId"], "parts": [{ "text": text }] },
        } });
        if let Some(last_chunk) = last_chunk {
            event["artifactUpdate"]["lastChunk"] = last_chunk;
        }
        self.delayed = Some(AgentEvent { event, buffered: sent.buffered.clone() });
        Some(sent)
    }

    /// The delayed event at the end of the stream.
    pub(super) fn take(&mut self) -> Option<AgentEvent> {
        self.delayed.take()
    }
}

/// The start of the last [`TAIL_BYTES`] of a text.
fn tail_start(text: &str) -> usize {
    text.floor_char_boundary(text.len().saturating_sub(TAIL_BYTES))
}

fn hash_of(artifact: &Value) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    artifact.get("artifactId")?.as_str()?.hash(&mut hasher);
    Some(hasher.finish())
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
            sent.extend(tail.delay(AgentEvent { event, buffered: None }, true));
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
    fn last_chunk_can_be_continued() {
        let first = || chunk("one", json!({ "lastChunk": true }));
        assert_eq!(sent(vec![first()]), [first()]);
        let received = sent(vec![first(), chunk("two", append())]);
        assert_eq!(received, [chunk("onetwo", json!({}))]);
        let text = "x".repeat(300);
        let received = sent(vec![chunk(&text, json!({ "lastChunk": true }))]);
        assert_eq!(received[0], chunk(&text[TAIL_BYTES..], json!({})));
        let tail = chunk(&text[..TAIL_BYTES], json!({ "append": true, "lastChunk": true }));
        assert_eq!(received[1], tail);
    }

    #[test]
    fn text_after_a_task_is_inspected_with_sent_text() {
        let task = |more: Value| {
            let mut task = json!({ "id": "t", "contextId": "c",
                "status": { "state": "TASK_STATE_WORKING" } });
            if !more.is_null() {
                task["artifacts"] = more;
            }
            json!({ "task": task })
        };
        let plain = || task(json!(null));
        let first = || chunk("card 4111", json!({}));
        let second = || chunk(" 1111 end", append());
        let received = sent(vec![first(), plain(), second()]);
        assert_eq!(received, [plain(), chunk("card 4111 1111 end", json!({}))]);
        let whole = || task(json!([{ "artifactId": "a", "parts": [{ "text": "card 4111" }] }]));
        assert_eq!(sent(vec![whole(), second()]), [whole(), second()], "unchanged text");
        let (mut tail, mut event) = (Tail::default(), second());
        assert!(tail.delay(AgentEvent { event: whole(), buffered: None }, true).is_some());
        assert!(tail.join(&mut event).is_none());
        assert_eq!(event, chunk("card 4111 1111 end", append()));
        let redacted = chunk("card [redacted] end", append());
        assert!(tail.delay(AgentEvent { event: redacted, buffered: None }, true).is_none());
        assert_eq!(tail.take().unwrap().event, chunk("[redacted] end", append()));
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
