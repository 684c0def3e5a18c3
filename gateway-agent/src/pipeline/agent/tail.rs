//! The end of a streamed text, which waits for the next events of its artifact: agents split texts
//! anywhere, and inspection must see a value that spans events, as must the search for the agent's
//! address.
//!
//! Whole events wait, as the agent sent them. The texts of one artifact are inspected as one text. An
//! event is sent when further text cannot change the findings in its texts.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    mem,
    ops::Range,
};

use a2a::{TaskState, hidden::Hidden, model::Event};
use gateway_protocol::content;
use gateway_upstream::AgentEvent;
use inspection::{MAX_OPEN_BYTES, settled_bytes};
use serde_json::Value;

use crate::inspection::{Inspected, Inspection, OpenText, SettledText};

/// The end of a sent text that can have the beginning of an address, in bytes.
const ADDRESS_BYTES: usize = 256;
/// Maximum contexts of a stream, in bytes. Most have 256 bytes; the beginnings of private keys and of
/// runs without spaces are longer.
const CONTEXTS_BYTES: usize = 512 << 10;
/// Maximum text of events that are joined, in bytes.
const JOINED_BYTES: usize = 64;
/// Maximum memory of the events of a stream that wait behind the first ones of their artifacts, in
/// bytes. With more, all events are sent.
const WAITING_BYTES: usize = 2 << 20;
/// Maximum artifacts of a stream whose texts are kept.
const MAX_ARTIFACTS: usize = 64;
const PARTS: &str = "/artifactUpdate/artifact/parts";

/// The texts of a stream that further events can continue.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The latest one is the last.
    runs: Vec<TextRun>,
}

/// The checks of texts. Without an inspection, only addresses are replaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextChecks<'a> {
    pub(super) hidden: &'a Hidden,
    pub(super) inspection: Option<&'a Inspection>,
}

/// The events to send, and the findings in their texts.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub(super) events: Vec<WaitingEvent>,
    pub(super) found: Inspected,
}

/// Adjacent texts of one artifact.
#[derive(Debug, Default)]
struct TextRun {
    /// The hash of the artifact's id, which can be long. A collision only inspects more text.
    artifact: u64,
    /// The end of the sent text, and the waiting text.
    text: String,
    /// The end of the sent text.
    sent: usize,
    waiting: VecDeque<WaitingEvent>,
    /// The next inspection waits until the text has this length. The inspections of a long text then
    /// need linear time.
    next_check: usize,
}

/// An event without the texts that are checked here.
#[derive(Debug)]
pub(super) struct WaitingEvent {
    pub(super) event: AgentEvent,
    /// The memory of the event.
    bytes: usize,
    /// The length of its texts.
    length: usize,
    /// The parts whose texts wait, with their ends in the run.
    ends: Vec<(usize, usize)>,
    /// The parts with checked texts.
    texts: Vec<(usize, String)>,
}

impl Tail {
    /// The length of the texts that wait, with their context.
    pub(super) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.text.len()).sum()
    }

    /// Adds an event, or the end of the stream. Returns the events to send.
    pub(super) fn add(&mut self, event: Option<AgentEvent>, checks: TextChecks<'_>) -> Released {
        let mut released = Released::default();
        let Some(event) = event else {
            self.release_all(checks, &mut released);
            return released;
        };
        if event.event.get("artifactUpdate").is_some_and(Value::is_object) {
            self.add_artifact(event, checks, &mut released);
            return released;
        }
        if !overtakes(&event.event) {
            self.release_all(checks, &mut released);
            self.remember_task(&event.event, checks);
            self.forget_oldest(checks, &mut released);
        }
        released.events.push(WaitingEvent::new(event));
        released
    }

    fn add_artifact(&mut self, event: AgentEvent, checks: TextChecks<'_>, released: &mut Released) {
        let appends = event.event.pointer("/artifactUpdate/append") == Some(&Value::Bool(true));
        let artifact = hash_of(&event.event["artifactUpdate"]["artifact"]);
        let parts = event.event.pointer(PARTS).and_then(Value::as_array);
        let parts = parts.map(Vec::as_slice).unwrap_or_default();
        let (count, is_text) = (parts.len(), |part: &&Value| text_of(part).is_some());
        let first = parts.iter().take_while(is_text).count();
        let last = parts.iter().rev().take_while(is_text).count();
        let known = self.runs.iter().position(|run| run.artifact == artifact);
        let known = known.map(|known| self.runs.remove(known));
        let mut run = known.unwrap_or_else(|| TextRun { artifact, ..TextRun::default() });
        // An artifact with a last chunk waits for the next artifact.
        for run in self.runs.iter_mut().filter(|run| run.has_ended()) {
            run.release(true, checks, released);
        }
        let mut waiting = WaitingEvent::new(event);
        if appends && first == count && count > 0 {
            run.add(waiting, 0..count);
        } else {
            if appends && first > 0 {
                run.add(waiting, 0..first);
                run.release(true, checks, released);
                // Its last texts begin another run.
                let Some(added) = released.events.pop() else { return };
                waiting = added;
            } else {
                run.release(true, checks, released);
            }
            run = TextRun { artifact, ..TextRun::default() };
            if last > 0 {
                run.add(waiting, count - last..count);
            } else {
                released.events.push(waiting);
            }
        }
        run.release(false, checks, released);
        self.runs.push(run);
        self.forget_oldest(checks, released);
        let behind = self.runs.iter().flat_map(|run| run.waiting.iter().skip(1));
        if behind.map(|waiting| waiting.bytes).sum::<usize>() > WAITING_BYTES {
            self.release_all(checks, released);
        }
    }

    fn release_all(&mut self, checks: TextChecks<'_>, released: &mut Released) {
        for run in &mut self.runs {
            run.release(true, checks, released);
        }
    }

    /// Releases and forgets the artifacts above the limits.
    fn forget_oldest(&mut self, checks: TextChecks<'_>, released: &mut Released) {
        let contexts = |runs: &[TextRun]| runs.iter().map(|run| run.sent).sum::<usize>();
        while self.runs.len() > MAX_ARTIFACTS || contexts(&self.runs) > CONTEXTS_BYTES {
            self.runs.remove(0).release(true, checks, released);
        }
    }

    /// Keeps the ends of the texts in a task. Nothing waits.
    fn remember_task(&mut self, event: &Value, checks: TextChecks<'_>) {
        let artifacts = event.pointer("/task/artifacts").and_then(Value::as_array);
        let artifacts = artifacts.map(Vec::as_slice).unwrap_or_default();
        for artifact in &artifacts[artifacts.len().saturating_sub(MAX_ARTIFACTS)..] {
            let text = end_of_text(artifact);
            let (artifact, sent) = (hash_of(artifact), text.len());
            self.runs.retain(|run| run.artifact != artifact);
            let mut run = TextRun { artifact, text, ..TextRun::default() };
            run.keep_context(sent, checks);
            self.runs.push(run);
        }
    }
}

impl TextRun {
    /// Adds the texts of adjacent parts of an event.
    fn add(&mut self, mut waiting: WaitingEvent, parts: Range<usize>) {
        waiting.length = 0;
        for part in parts {
            let text = waiting.take_text(part);
            waiting.length += text.len();
            self.text += &text;
            waiting.ends.push((part, self.text.len()));
        }
        match self.waiting.back_mut() {
            Some(last) if last.length + waiting.length <= JOINED_BYTES && last.has(&waiting) => {
                last.join(&waiting);
            }
            _ => self.waiting.push_back(waiting),
        }
    }

    /// Releases the events whose texts are final, or all of them.
    fn release(&mut self, all: bool, checks: TextChecks<'_>, released: &mut Released) {
        let is_checked = checks.inspection.is_some() && self.text.len() < self.next_check;
        if self.waiting.is_empty() || is_checked && !all {
            return;
        }
        let open = self.hide(all, checks.hidden);
        let settled = self.settled(all, open, checks, released);
        if let Some(settled) = settled {
            self.send(settled, checks, released);
        }
        let is_empty = self.waiting.is_empty();
        self.next_check = if is_empty { 0 } else { self.text.len() + self.text.len() / 16 };
    }

    /// Moves the events with settled texts to the released ones.
    fn send(
        &mut self,
        SettledText { end, changed }: SettledText,
        checks: TextChecks<'_>,
        released: &mut Released,
    ) {
        let is_final = |waiting: &&WaitingEvent| waiting.end() <= end;
        let count = self.waiting.iter().take_while(is_final).count();
        let first = released.events.len();
        released.events.extend(self.waiting.drain(..count));
        let mut at = self.sent;
        for waiting in &mut released.events[first..] {
            for (part, until) in mem::take(&mut waiting.ends) {
                // The last text receives a changed one.
                let kept = if changed.is_some() { "" } else { self.slice(at..until) };
                waiting.texts.push((part, kept.to_owned()));
                at = at.max(until);
            }
        }
        let last = released.events[first..].last_mut();
        if let Some((_, last)) = last.and_then(|waiting| waiting.texts.last_mut()) {
            *last += changed.as_deref().unwrap_or_else(|| self.slice(at..end));
        }
        self.keep_context(end, checks);
    }

    /// Keeps the end of the text up to a position, which is sent: the words around a value, and the
    /// beginning of a value that further text can end.
    fn keep_context(&mut self, end: usize, TextChecks { inspection, .. }: TextChecks<'_>) {
        let sent = &self.text[..end];
        let start = match inspection {
            Some(_) => settled_bytes(sent, &[]),
            None => sent.floor_char_boundary(end.saturating_sub(ADDRESS_BYTES)),
        };
        // Without the capacity of the sent text.
        self.text = self.text.split_off(start);
        self.sent = end - start;
        for (_, end) in self.waiting.iter_mut().flat_map(|waiting| &mut waiting.ends) {
            *end -= start;
        }
    }

    /// Inspects the text up to the end of the last event that can be sent.
    fn settled(
        &self,
        all: bool,
        open: usize,
        TextChecks { inspection, .. }: TextChecks<'_>,
        released: &mut Released,
    ) -> Option<SettledText> {
        let cut = |most: usize| {
            let ends = self.waiting.iter().map(WaitingEvent::end);
            ends.take_while(|end| *end <= most.min(open)).last()
        };
        let Some(inspection) = inspection else {
            return cut(self.text.len()).map(|end| SettledText { end, changed: None });
        };
        let part = self.waiting.front().and_then(|waiting| waiting.ends.first());
        let place = part.map(|(part, _)| format!("{PARTS}/{part}/text")).unwrap_or_default();
        let open = OpenText { text: &self.text, sent: self.sent, is_whole: all };
        let (settled, found) = inspection.settled(open, &place, cut);
        released.found.merge(found);
        settled
    }

    /// Replaces the addresses in the waiting text. Returns the start of its end that further text can
    /// make an address.
    fn hide(&mut self, all: bool, hidden: &Hidden) -> usize {
        let open = |text: &str| if all { text.len() } else { hidden.open_start(text) };
        let most = open(&self.text);
        let with = hidden.replacement();
        for Range { start, end } in hidden.find(&self.text).into_iter().rev() {
            if end <= self.sent || start >= most {
                continue;
            }
            let start = start.max(self.sent);
            self.text.replace_range(start..end, with);
            for (_, at) in self.waiting.iter_mut().flat_map(|waiting| &mut waiting.ends) {
                if *at >= end {
                    *at = *at - (end - start) + with.len();
                } else if *at > start {
                    *at = start + with.len();
                }
            }
        }
        open(&self.text)
    }

    /// Whether the last event that waits has the last chunk.
    fn has_ended(&self) -> bool {
        let last = self.waiting.back().map(|last| &last.event.event["artifactUpdate"]["lastChunk"]);
        last == Some(&Value::Bool(true))
    }

    /// Empty if the range ends before its start.
    fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }
}

impl WaitingEvent {
    fn new(event: AgentEvent) -> Self {
        let bytes = content::value_bytes(&event.event);
        Self { event, bytes, length: 0, ends: Vec::new(), texts: Vec::new() }
    }

    /// The end of its last text that waits.
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |(_, end)| *end)
    }

    /// Takes the text of a part. The part has none until [`put_texts`].
    fn take_text(&mut self, part: usize) -> String {
        match text_at(&mut self.event.event, part).map(Value::take) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        }
    }

    /// The event without its checked texts.
    pub(super) fn into_parts(self) -> (AgentEvent, Vec<(usize, String)>) {
        (self.event, self.texts)
    }

    /// Whether a later event adds one text and nothing else.
    fn has(&self, later: &Self) -> bool {
        let [own, new] = [self, later].map(|waiting| &waiting.event.event["artifactUpdate"]);
        let [own_parts, new_parts] =
            [own, new].map(|update| update["artifact"]["parts"].as_array());
        let (Some(own_parts), Some([new_part])) = (own_parts, new_parts.map(Vec::as_slice)) else {
            return false;
        };
        own_parts.last() == Some(new_part)
            && contains(own, new, &["append", "lastChunk", "artifact"])
            && contains(&own["artifact"], &new["artifact"], &["parts"])
    }

    /// Adds the text of an event that adds nothing else.
    fn join(&mut self, later: &Self) {
        self.length += later.length;
        self.bytes += later.length;
        if let (Some((_, end)), Some((_, later))) = (self.ends.last_mut(), later.ends.last()) {
            *end = *later;
        }
        let last_chunk = later.event.event.pointer("/artifactUpdate/lastChunk").cloned();
        if let Some(update) = self.event.event["artifactUpdate"].as_object_mut() {
            match last_chunk {
                Some(last_chunk) => update.insert("lastChunk".to_owned(), last_chunk),
                None => update.remove("lastChunk"),
            };
        }
    }
}

/// Puts the checked texts into a finished event.
pub(super) fn put_texts(texts: Vec<(usize, String)>, event: &mut Value) {
    for (part, text) in texts {
        if let Some(member) = text_at(event, part) {
            *member = text.into();
        }
    }
}

/// Whether an event is sent before texts that wait: the status of a task that continues.
fn overtakes(event: &Value) -> bool {
    let continues = |state: TaskState| !state.is_terminal() && !state.is_interrupted();
    match Event::of(event) {
        Some(Event::Status { state, .. }) => continues(state),
        Some(Event::Task(task)) => continues(task.state()) && task.artifacts().next().is_none(),
        Some(Event::Message(_) | Event::Artifact { .. }) | None => false,
    }
}

/// Whether an object has all members of another one, except those with these names.
fn contains(object: &Value, other: &Value, except: &[&str]) -> bool {
    let mut members = other.as_object().into_iter().flatten();
    members.all(|(name, value)| except.contains(&name.as_str()) || object.get(name) == Some(value))
}

fn text_of(part: &Value) -> Option<&str> {
    part.get("text")?.as_str()
}

fn text_at(event: &mut Value, part: usize) -> Option<&mut Value> {
    event.pointer_mut(PARTS)?.get_mut(part)?.get_mut("text")
}

/// The end of the text of an artifact, as long as the beginning of a value can be.
fn end_of_text(artifact: &Value) -> String {
    let parts = artifact.get("parts").and_then(Value::as_array);
    let (mut texts, mut missing) = (Vec::new(), MAX_OPEN_BYTES);
    for text in parts.into_iter().flatten().rev().map_while(text_of) {
        let start = text.ceil_char_boundary(text.len().saturating_sub(missing));
        missing -= text.len() - start;
        texts.push(&text[start..]);
        if start > 0 {
            break;
        }
    }
    texts.reverse();
    texts.concat()
}

fn hash_of(artifact: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    artifact.get("artifactId").map(Value::to_string).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
