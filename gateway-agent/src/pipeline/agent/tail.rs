//! The end of a streamed text, which waits for the next events of its artifact: agents split texts
//! anywhere, and inspection must see a value that spans events, as must the search for the agent's
//! address.
//!
//! Whole events wait, as the agent sent them. The texts of one artifact are inspected as one text. An
//! event is sent when further text cannot change the findings in its texts. After a time, it is also sent
//! if its texts have no incomplete value.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    mem,
    ops::Range,
    time::Duration,
};

use a2a::{Failure, TaskState, hidden::Hidden, model::Event};
use gateway_protocol::content;
use gateway_upstream::{AgentEvent, StreamedEvent};
use inspection::{MAX_OPEN_BYTES, TextEnd, settled_bytes};
use serde_json::Value;
use tokio::time::Instant;

use crate::inspection::{CheckedText, Inspected, Inspection, OpenText};

/// The end of a sent text that can have the beginning of an address, in bytes.
const ADDRESS_BYTES: usize = 256;
/// Maximum contexts of a stream, in bytes. Most have 256 bytes; the beginnings of private keys and of
/// runs without spaces are longer.
const CONTEXTS_BYTES: usize = 512 << 10;
/// Maximum text of events that are joined, in bytes.
const JOINED_BYTES: usize = 64;
/// Maximum memory of the events of a stream that wait, in bytes, except for the first one of the newest
/// artifact. With more, those of the oldest artifacts are sent.
const WAITING_BYTES: usize = 2 << 20;
/// The time after which a text that waits is sent, except for the word that is being written. Without
/// further text in this time, only an incomplete value waits.
const TEXT_WAIT: Duration = Duration::from_secs(2);
/// The time without further text after which only an incomplete private key waits.
const VALUE_WAIT: Duration = Duration::from_secs(30);
/// Maximum artifacts of a stream whose texts are kept.
const MAX_ARTIFACTS: usize = 64;
const PARTS: &str = "/artifactUpdate/artifact/parts";

/// The texts of a stream that further events can continue.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The latest one is the last.
    runs: Vec<TextRun>,
    /// Whether the last input is an event of the latest artifact that was released unchanged and alone.
    has_passed: bool,
}

/// The next input of a stream.
#[derive(Debug)]
pub(super) enum StreamInput<E = AgentEvent> {
    Event(E),
    /// A text waits too long: the time of [`Tail::late_at`].
    Timeout,
    End,
}

impl StreamInput<StreamedEvent> {
    /// The input with the internal form of its event.
    pub(super) fn into_values(self) -> Result<StreamInput, Failure> {
        Ok(match self {
            Self::Event(AgentEvent { event, buffered }) => {
                StreamInput::Event(AgentEvent { event: event.into_value()?, buffered })
            }
            Self::Timeout => StreamInput::Timeout,
            Self::End => StreamInput::End,
        })
    }
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
#[derive(Debug)]
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
    /// The time of the last text, later by the pauses since.
    continued_at: Instant,
    /// When the events wait too long.
    late_at: Option<Instant>,
}

/// An event without the texts that are checked here.
#[derive(Debug)]
pub(super) struct WaitingEvent {
    pub(super) event: AgentEvent,
    /// The memory of the event.
    bytes: usize,
    /// The length of its texts.
    length: usize,
    /// The end of its texts in the run, or of those before it.
    end: usize,
    /// The parts whose texts wait, with their ends in the run.
    ends: Vec<(usize, usize)>,
    /// The parts with checked texts.
    texts: Vec<(usize, String)>,
    /// Whether it has waited for the time of a check. With further text, it would end with a word that
    /// is being written at the next check, too.
    is_late: bool,
}

impl Tail {
    /// The length of the texts that wait, with their context.
    pub(super) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.text.len()).sum()
    }

    /// Whether events wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.runs.iter().any(|run| !run.waiting.is_empty())
    }

    /// When a text waits too long. `None`: no text waits for a time.
    pub(super) fn late_at(&self) -> Option<Instant> {
        self.runs.iter().filter_map(|run| run.late_at).min()
    }

    /// Excludes a pause of the agent from the time without text.
    pub(super) fn pause(&mut self, time: Duration) {
        for run in &mut self.runs {
            run.continued_at += time;
        }
    }

    /// Whether the next event can repeat the last one.
    pub(super) fn has_passed(&self) -> bool {
        self.has_passed
    }

    /// Adds the text of an event that repeats the last one, if the event can be sent unchanged. Without
    /// an inspection only.
    pub(super) fn passes_repeat(&mut self, text: &str, hidden: &Hidden) -> bool {
        let checks = TextChecks { hidden, inspection: None };
        let run = self.runs.last_mut().filter(|_| self.has_passed);
        run.is_some_and(|run| run.passes([text], TextEnd::Open, checks))
    }

    /// Adds an input at a time. Returns the events to send.
    pub(super) fn add(
        &mut self,
        input: StreamInput,
        now: Instant,
        checks: TextChecks<'_>,
    ) -> Released {
        let mut released = Released::default();
        self.has_passed = false;
        match input {
            StreamInput::Event(event) => self.add_event(event, now, checks, &mut released),
            StreamInput::Timeout => self.release_late(now, checks, &mut released),
            StreamInput::End => self.release_all(checks, &mut released),
        }
        released
    }

    fn add_event(
        &mut self,
        event: AgentEvent,
        now: Instant,
        checks: TextChecks<'_>,
        released: &mut Released,
    ) {
        if event.event.get("artifactUpdate").is_some_and(Value::is_object) {
            self.add_artifact(event, now, checks, released);
            return;
        }
        if !overtakes(&event.event) {
            self.release_all(checks, released);
            self.remember_task(&event.event, now, checks);
            self.forget_oldest(checks, released);
        }
        released.events.push(WaitingEvent::new(event));
    }

    fn add_artifact(
        &mut self,
        event: AgentEvent,
        now: Instant,
        checks: TextChecks<'_>,
        released: &mut Released,
    ) {
        let update = &event.event["artifactUpdate"];
        // Clients can read other values as true. A wrong guess only inspects more text.
        let appends =
            !matches!(update.get("append"), None | Some(Value::Null | Value::Bool(false)));
        let is_last = update.get("lastChunk") == Some(&Value::Bool(true));
        let artifact = &update["artifact"];
        let parts = artifact["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let artifact = hash_of(artifact);
        let count = parts.len();
        let first_end = parts.iter().position(ends_text);
        let begin = parts.iter().rposition(ends_text).map_or(0, |last_end| last_end + 1);
        let known = self.runs.iter().position(|run| run.artifact == artifact);
        let known = known.map(|known| self.runs.remove(known));
        let mut run = known.unwrap_or_else(|| TextRun::of(artifact, now));
        let end = if is_last { TextEnd::Final } else { TextEnd::Open };
        let is_split = !appends || first_end.is_some();
        let passes = !is_split && run.passes(parts.iter().filter_map(text_of), end, checks);
        if passes {
            released.events.push(WaitingEvent::passed(event, count));
        } else {
            let mut event = WaitingEvent::new(event);
            if is_split {
                // The event ends the known text, and its last parts begin another one.
                run.push(event, 0..first_end.filter(|_| appends).unwrap_or_default(), now);
                let mut ended = run.release(TextEnd::Final, checks, &mut released.found);
                let Some(last) = ended.pop() else { return };
                released.events.extend(ended);
                (event, run) = (last, TextRun::of(artifact, now));
            }
            run.push(event, begin..count, now);
            run.join_last();
            released.events.extend(run.release(end, checks, &mut released.found));
        }
        self.runs.push(run);
        self.forget_oldest(checks, released);
        self.release_oldest(checks, released);
        self.has_passed = passes && end == TextEnd::Open && released.events.len() == 1;
    }

    /// Releases the oldest artifacts until the others have the allowed memory.
    fn release_oldest(&mut self, checks: TextChecks<'_>, released: &mut Released) {
        let bytes = |run: &TextRun| run.waiting.iter().map(|waiting| waiting.bytes).sum::<usize>();
        let newest = self.runs.last().and_then(|run| run.waiting.front());
        let newest = newest.map_or(0, |waiting| waiting.bytes);
        let mut excess =
            self.runs.iter().map(bytes).sum::<usize>().saturating_sub(newest + WAITING_BYTES);
        for run in &mut self.runs {
            if excess == 0 {
                return;
            }
            excess = excess.saturating_sub(bytes(run));
            released.events.extend(run.release(TextEnd::Final, checks, &mut released.found));
        }
    }

    fn release_all(&mut self, checks: TextChecks<'_>, released: &mut Released) {
        for run in &mut self.runs {
            released.events.extend(run.release(TextEnd::Final, checks, &mut released.found));
        }
    }

    /// Releases the texts that wait too long.
    fn release_late(&mut self, now: Instant, checks: TextChecks<'_>, released: &mut Released) {
        for run in &mut self.runs {
            if run.late_at.is_some_and(|late_at| late_at <= now) {
                let end = run.wait_longer(now);
                released.events.extend(run.release(end, checks, &mut released.found));
                if let Some(last) = run.waiting.back_mut() {
                    last.is_late = true;
                }
            }
        }
    }

    /// Releases and forgets the artifacts above the limits.
    fn forget_oldest(&mut self, checks: TextChecks<'_>, released: &mut Released) {
        let contexts = |runs: &[TextRun]| runs.iter().map(|run| run.sent).sum::<usize>();
        while self.runs.len() > MAX_ARTIFACTS || contexts(&self.runs) > CONTEXTS_BYTES {
            let mut oldest = self.runs.remove(0);
            released.events.extend(oldest.release(TextEnd::Final, checks, &mut released.found));
        }
    }

    /// Keeps the ends of the texts in a task. Nothing waits.
    fn remember_task(&mut self, event: &Value, now: Instant, checks: TextChecks<'_>) {
        let artifacts = event["task"].get("artifacts").and_then(Value::as_array);
        let artifacts = artifacts.map(Vec::as_slice).unwrap_or_default();
        for artifact in &artifacts[artifacts.len().saturating_sub(MAX_ARTIFACTS)..] {
            let text = end_of_text(artifact);
            let (artifact, sent) = (hash_of(artifact), text.len());
            self.runs.retain(|run| run.artifact != artifact);
            let mut run = TextRun { text, ..TextRun::of(artifact, now) };
            run.keep_context(sent, checks);
            self.runs.push(run);
        }
    }
}

impl TextRun {
    fn of(artifact: u64, now: Instant) -> Self {
        Self {
            artifact,
            text: String::new(),
            sent: 0,
            waiting: VecDeque::new(),
            next_check: 0,
            continued_at: now,
            late_at: None,
        }
    }

    /// Adds the texts of parts as sent if nothing changes or waits: without an inspection, they have no
    /// address and no beginning of one.
    fn passes<'t>(
        &mut self,
        texts: impl IntoIterator<Item = &'t str>,
        end: TextEnd,
        checks: TextChecks<'_>,
    ) -> bool {
        if checks.inspection.is_some() || !self.waiting.is_empty() {
            return false;
        }
        let known = self.text.len();
        self.text.extend(texts);
        let is_final =
            end == TextEnd::Final || checks.hidden.open_start(&self.text) == self.text.len();
        let is_sent = |address: &Range<usize>| address.end <= self.sent;
        let passes = is_final && checks.hidden.find(&self.text).iter().all(is_sent);
        if !passes {
            self.text.truncate(known);
        } else if self.text.len() > known {
            self.keep_context(self.text.len(), checks);
        }
        passes
    }

    /// Adds an event with the texts of adjacent parts.
    fn push(&mut self, mut event: WaitingEvent, parts: Range<usize>, now: Instant) {
        let start = self.text.len();
        for part in parts {
            // The part has no text until `put_texts`.
            let Some(text) = take_text(&mut event.event.event, part) else { continue };
            self.text += &text;
            event.ends.push((part, self.text.len()));
        }
        event.end = self.text.len();
        event.length = event.end - start;
        if event.length > 0 {
            self.continued_at = now;
        }
        let late_at = now + TEXT_WAIT;
        self.late_at = Some(self.late_at.map_or(late_at, |earlier| earlier.min(late_at)));
        self.waiting.push_back(event);
    }

    /// Schedules the next check of the events that wait. Returns the present end of the text.
    fn wait_longer(&mut self, now: Instant) -> TextEnd {
        let times = [(TEXT_WAIT, TextEnd::Growing), (VALUE_WAIT, TextEnd::Late)];
        let mut times = times.into_iter().map(|(wait, end)| (self.continued_at + wait, end));
        let next = times.find(|(late_at, _)| now < *late_at);
        // An incomplete private key waits for the next event.
        self.late_at = next.map(|(late_at, _)| late_at);
        next.map_or(TextEnd::Stalled, |(_, end)| end)
    }

    /// Joins the last two events if they are short and new, and the last one adds only a text.
    fn join_last(&mut self) {
        let Some(last) = self.waiting.pop_back() else { return };
        match self.waiting.back_mut() {
            Some(before)
                if !before.is_late
                    && before.length + last.length <= JOINED_BYTES
                    && before.has(&last) =>
            {
                before.join(&last);
            }
            _ => self.waiting.push_back(last),
        }
    }

    /// Takes the events whose texts are final.
    fn release(
        &mut self,
        end: TextEnd,
        checks: TextChecks<'_>,
        found: &mut Inspected,
    ) -> Vec<WaitingEvent> {
        // Events without a text wait only for the texts before them.
        let mut checked = CheckedText { end: self.sent, changed: None };
        let is_due = checks.inspection.is_none() || self.text.len() >= self.next_check;
        let is_checked = !self.waiting.is_empty() && (is_due || end != TextEnd::Open);
        if is_checked {
            checked = self.check(end, checks, found).unwrap_or(checked);
        }
        let events = self.take(checked, checks);
        if self.waiting.is_empty() {
            (self.next_check, self.late_at) = (0, None);
        } else if is_checked {
            self.next_check = self.text.len() + self.text.len() / 16;
        }
        events
    }

    /// Takes the events with checked texts.
    fn take(
        &mut self,
        CheckedText { end, changed }: CheckedText,
        checks: TextChecks<'_>,
    ) -> Vec<WaitingEvent> {
        let count = self.waiting.iter().take_while(|waiting| waiting.end <= end).count();
        let mut events: Vec<_> = self.waiting.drain(..count).collect();
        let mut at = self.sent;
        for waiting in &mut events {
            for (part, until) in mem::take(&mut waiting.ends) {
                // The last text receives a changed one.
                let kept = if changed.is_some() { "" } else { self.slice(at..until) };
                waiting.texts.push((part, kept.to_owned()));
                at = at.max(until);
            }
        }
        if end > self.sent {
            let texts = events.iter_mut().rev().find_map(|waiting| waiting.texts.last_mut());
            if let Some((_, last)) = texts {
                *last += changed.as_deref().unwrap_or_else(|| self.slice(at..end));
            }
            self.keep_context(end, checks);
        }
        events
    }

    /// Keeps the end of the text up to a position, which is sent: the words around a value, and the
    /// beginning of a value that further text can end.
    fn keep_context(&mut self, end: usize, TextChecks { inspection, .. }: TextChecks<'_>) {
        let sent = &self.text[..end];
        let start = match inspection {
            Some(_) => settled_bytes(sent, &[]),
            None => sent.floor_char_boundary(end.saturating_sub(ADDRESS_BYTES)),
        };
        drop(self.text.drain(..start));
        // Without the capacity of a long text.
        self.text.shrink_to(2 * self.text.len().max(ADDRESS_BYTES));
        self.sent = end - start;
        for at in self.waiting.iter_mut().flat_map(WaitingEvent::positions) {
            // A changed value can include the first parts of an event that waits.
            *at = at.saturating_sub(start);
        }
    }

    /// Replaces addresses, and inspects the text up to the end of the last event that can be sent.
    /// `None`: no event can be sent.
    fn check(
        &mut self,
        end: TextEnd,
        TextChecks { hidden, inspection }: TextChecks<'_>,
        found: &mut Inspected,
    ) -> Option<CheckedText> {
        let open = self.hide(end, hidden);
        let cut = |most: usize| {
            let ends = self.waiting.iter().map(|waiting| waiting.end);
            ends.take_while(|end| *end <= most.min(open)).last().filter(|end| *end > self.sent)
        };
        let Some(inspection) = inspection else {
            return cut(self.text.len()).map(|end| CheckedText { end, changed: None });
        };
        let part = self.waiting.iter().flat_map(|waiting| &waiting.ends).next();
        let place = part.map(|(part, _)| format!("{PARTS}/{part}/text")).unwrap_or_default();
        let (checked, inspected) =
            inspection.open_text(OpenText { text: &self.text, sent: self.sent, end }, &place, cut);
        found.merge(inspected);
        checked
    }

    /// Replaces the addresses in the waiting text. Returns the start of its end that further text can
    /// make an address.
    fn hide(&mut self, end: TextEnd, hidden: &Hidden) -> usize {
        let open = |text: &str| match end {
            TextEnd::Open | TextEnd::Growing | TextEnd::Late => hidden.open_start(text),
            TextEnd::Stalled | TextEnd::Final => text.len(),
        };
        let most = open(&self.text);
        let with = hidden.replacement();
        for Range { start, end } in hidden.find(&self.text).into_iter().rev() {
            if end <= self.sent || start >= most {
                continue;
            }
            let start = start.max(self.sent);
            self.text.replace_range(start..end, with);
            for at in self.waiting.iter_mut().flat_map(WaitingEvent::positions) {
                if *at >= end {
                    *at = *at - (end - start) + with.len();
                } else if *at > start {
                    *at = start + with.len();
                }
            }
        }
        open(&self.text)
    }

    /// Empty if the range ends before its start.
    fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }
}

impl WaitingEvent {
    fn new(event: AgentEvent) -> Self {
        let bytes = content::value_bytes(&event.event);
        let (ends, texts) = (Vec::new(), Vec::new());
        Self { event, bytes, length: 0, end: 0, ends, texts, is_late: false }
    }

    /// An event whose texts do not wait. They are not a part of it until `put_texts`, because they were
    /// checked together with those of earlier events.
    fn passed(mut event: AgentEvent, parts: usize) -> Self {
        let take = |part| Some((part, take_text(&mut event.event, part)?));
        let texts = (0..parts).filter_map(take).collect();
        Self { event, bytes: 0, length: 0, end: 0, ends: Vec::new(), texts, is_late: false }
    }

    /// The positions in the text of its run.
    fn positions(&mut self) -> impl Iterator<Item = &mut usize> {
        self.ends.iter_mut().map(|(_, end)| end).chain([&mut self.end])
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
        self.ends.last().is_some_and(|(part, _)| part + 1 == own_parts.len())
            && own_parts.last() == Some(new_part)
            && contains(own, new, &["append", "lastChunk", "artifact"])
            && contains(&own["artifact"], &new["artifact"], &["parts"])
    }

    /// Adds the text of an event that adds nothing else.
    fn join(&mut self, later: &Self) {
        self.length += later.length;
        self.bytes += later.length;
        self.end = later.end;
        if let Some((_, end)) = self.ends.last_mut() {
            *end = later.end;
        }
        let last_chunk = later.event.event["artifactUpdate"].get("lastChunk").cloned();
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

/// Whether a part has data or a file, which end a text. A part without content is no gap.
fn ends_text(part: &Value) -> bool {
    let has = |name: &&str| part.get(name).is_some_and(|content| !content.is_null());
    text_of(part).is_none() && ["data", "raw", "url"].iter().any(has)
}

fn text_at(event: &mut Value, part: usize) -> Option<&mut Value> {
    let artifact = event.get_mut("artifactUpdate")?.get_mut("artifact")?;
    artifact.get_mut("parts")?.get_mut(part)?.get_mut("text")
}

fn take_text(event: &mut Value, part: usize) -> Option<String> {
    let text = text_at(event, part).filter(|text| text.is_string())?;
    if let Value::String(text) = text.take() { Some(text) } else { None }
}

/// The end of the text of an artifact, as long as the beginning of a value can be.
fn end_of_text(artifact: &Value) -> String {
    let parts = artifact.get("parts").and_then(Value::as_array);
    let (mut texts, mut missing) = (Vec::new(), MAX_OPEN_BYTES);
    let parts = parts.into_iter().flatten().rev().take_while(|part| !ends_text(part));
    for text in parts.filter_map(text_of) {
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
    match artifact.get("artifactId") {
        Some(Value::String(id)) => id.hash(&mut hasher),
        // Clients can use the text of another value as the id.
        id => id.map(Value::to_string).unwrap_or_default().hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
