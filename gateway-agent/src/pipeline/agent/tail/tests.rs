//! Texts that span events of a stream.

use std::sync::Arc;

use policy::{Called, Direction, ResourceKind};
use serde_json::json;

use super::*;
use crate::{
    governance::Governance,
    inspection::{Form, Inspections},
    testing::{catalog, policy},
};

const CORPUS: &str = include_str!("../../../../../crates/inspection/tests/corpus.txt");
const CARD: &str = "card 4539 5787 6362 1486 end";
const REDACTED: &str = "card [redacted:financial] end";
/// Values without spaces, in two parts that are no values.
const SPLIT_VALUES: [[&str; 2]; 4] = [
    ["jane.doe", "@firma.de"],
    ["иван.василье", "в@почта.рф"],
    ["postgres://admin:sEcretPassWord", "Xx@db.acme.de/x"],
    ["AKIAQYLPMNHF", "IZJ3WXAB"],
];

/// An inspection that redacts values of all classes.
fn redacting() -> Inspection {
    let results = json!({ "credential": "redact", "financial": "redact", "governmentId": "redact",
        "contact": "redact", "network": "redact" });
    let catalog = catalog(1, vec![policy("p", json!({ "inspection": { "results": results } }))]);
    let governance = Governance::new(&catalog, None, None).unwrap();
    let server = "server/x@1.0.0".parse().unwrap();
    let called = Called::Feature(ResourceKind::Prompt, &server, "x");
    let policies = governance.applicable_policies(None, called).unwrap();
    let rules = policies.inspection().unwrap();
    Arc::new(Inspections::default()).of(rules, Direction::Results, &None).unwrap()
}

fn chunk(text: &str, more: Value) -> Value {
    chunk_of(&[text], more)
}

fn chunk_of(texts: &[&str], more: Value) -> Value {
    let parts: Vec<_> = texts.iter().map(|text| json!({ "text": text })).collect();
    let mut update = json!({ "taskId": "t", "contextId": "c",
        "artifact": { "artifactId": "a", "parts": parts } });
    let (Value::Object(members), Some(update_members)) = (more, update.as_object_mut()) else {
        panic!("members")
    };
    update_members.extend(members);
    json!({ "artifactUpdate": update })
}

fn append() -> Value {
    json!({ "append": true })
}

/// The first event replaces the artifact, the others append to it.
fn stream<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Value> {
    let events = texts.into_iter().enumerate();
    events.map(|(at, text)| chunk(text, json!({ "append": at > 0 }))).collect()
}

/// An event of another artifact.
fn other(text: &str, more: Value) -> Value {
    let mut other = chunk(text, more);
    other["artifactUpdate"]["artifact"]["artifactId"] = "b".into();
    other
}

fn status(state: &str) -> Value {
    json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": state } } })
}

fn task(artifacts: Value) -> Value {
    let mut task = json!({ "id": "t", "contextId": "c",
        "status": { "state": "TASK_STATE_WORKING" } });
    if !artifacts.is_null() {
        task["artifacts"] = artifacts;
    }
    json!({ "task": task })
}

/// Sends events; a number is a time without events, in milliseconds. Returns those that clients receive
/// after each, and at the end.
fn received(events: Vec<Value>, checks: TextChecks<'_>) -> Vec<Vec<Value>> {
    let (mut tail, mut now) = (Tail::default(), Instant::now());
    let inputs = events.into_iter().map(|event| match event.as_u64() {
        Some(time) => (time, StreamInput::Timeout),
        None => (0, StreamInput::Event(AgentEvent { event, buffered: None })),
    });
    let sent = inputs.chain([(0, StreamInput::End)]).map(|(time, input)| {
        now += Duration::from_millis(time);
        let released = tail.add(input, now, checks).events.into_iter().map(|waiting| {
            let (AgentEvent { mut event, .. }, texts) = waiting.into_parts();
            put_texts(texts, &mut event);
            event
        });
        released.collect::<Vec<_>>()
    });
    sent.collect()
}

fn sent_with(events: Vec<Value>, inspection: &Inspection) -> Vec<Value> {
    let hidden = Hidden::new(&[], "agent.invalid");
    received(events, TextChecks { hidden: &hidden, inspection: Some(inspection) }).concat()
}

fn sent(events: Vec<Value>) -> Vec<Value> {
    sent_with(events, &redacting())
}

/// The texts of all artifacts, joined.
fn text(events: &[Value]) -> String {
    let parts = events.iter().filter_map(|event| event.pointer(PARTS)?.as_array()).flatten();
    parts.filter_map(text_of).collect()
}

/// The text of one part of an answer, inspected as a whole.
fn whole(text: &str, inspection: &Inspection) -> String {
    let found = inspection.json(&json!(text).to_string(), Form::Part(""));
    let changed = found.changed.map(|changed| serde_json::from_str(&changed.text).unwrap());
    changed.unwrap_or_else(|| text.to_owned())
}

/// The texts of the corpus, with the number of their line.
fn corpus() -> impl Iterator<Item = (usize, String)> {
    let lines = CORPUS.lines().enumerate();
    let lines = lines.filter(|(_, line)| line.contains('«') && !line.starts_with("# "));
    lines.map(|(at, line)| {
        let mut text = line.replace('¦', "").replace('↵', "\n").replace('»', "");
        while let Some(mark) = text.find('«') {
            let bar = text[mark..].find('|').expect("a class");
            text.replace_range(mark..=mark + bar, "");
        }
        (at + 1, text)
    })
}

fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, char)| &text[at..at + char.len_utf8()])
}

/// A private key of 1,800 bytes and a JSON web token of 900 bytes.
fn long_values() -> [String; 2] {
    // Parts, so that scanners of source code find none.
    let lines = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfnPh7TqUuN8aGb5LwYcD2RkVmXs91ZoEtF\n".repeat(26);
    let key = format!("-----BEGIN {0} KEY-----\n{lines}-----END {0} KEY-----", "PRIVATE");
    let (subject, signature) = ("YWFh".repeat(200), "Q2".repeat(22));
    let token = format!("eyJ{}.eyJ{}{subject}.{signature}", "hbGciOiJIUzI1NiJ9", "zdWIiOiJ4");
    [key, token]
}

/// The positions in the text of a value after its beginning, which is none alone.
fn cuts(value: &str) -> impl Iterator<Item = usize> {
    (40..value.len() - 40).step_by(13)
}

#[test]
fn split_values_equal_the_redaction_of_the_whole() {
    let inspection = redacting();
    for (line, value) in corpus() {
        let expected = whole(&value, &inspection);
        let got = text(&sent_with(stream(characters(&value)), &inspection));
        assert_eq!(got, expected, "line {line}, single characters");
        // Long texts have too many positions.
        let step = if value.len() <= 300 { 1 } else { 7 };
        let positions = value.char_indices().map(|(at, _)| at).step_by(step);
        for (first, rest) in positions.map(|at| value.split_at(at)) {
            let got = text(&sent_with(stream([first, rest]), &inspection));
            assert_eq!(got, expected, "line {line}, split at {}", first.len());
            let (middle, end) = rest.split_at(rest.floor_char_boundary(rest.len() / 2));
            let parts = vec![chunk_of(&[first, middle], json!({})), chunk_of(&["", end], append())];
            let got = text(&sent_with(parts, &inspection));
            assert_eq!(got, expected, "line {line}, parts split at {}", first.len());
        }
    }
}

#[test]
fn values_in_long_texts_equal_the_redaction_of_the_whole() {
    let inspection = redacting();
    // A document in a longer text is no document.
    for (line, value) in corpus().filter(|(_, value)| !value.starts_with(['{', '['])) {
        let filler = "Some words.\n".repeat(60);
        let value = format!("{filler}{value}\n{filler}");
        let characters: Vec<_> = characters(&value).collect();
        let chunks: Vec<_> = characters.chunks(9).map(<[_]>::concat).collect();
        let events = stream(chunks.iter().map(String::as_str));
        let got = text(&sent_with(events, &inspection));
        assert_eq!(got, whole(&value, &inspection), "line {line}");
    }
}

#[test]
fn short_chunks_of_one_artifact_are_joined() {
    let last = json!({ "append": true, "lastChunk": true });
    let events = vec![chunk("one ", json!({})), chunk("two ", append()), chunk("three", last)];
    assert_eq!(sent(events), [chunk("one two three", json!({ "lastChunk": true }))]);
}

#[test]
fn different_events_keep_their_members() {
    let first = || {
        let mut first = chunk("card 4539 5787", json!({ "metadata": { "n": 1 } }));
        first["artifactUpdate"]["artifact"]["parts"][0]["mediaType"] = "text/markdown".into();
        first["artifactUpdate"]["artifact"]["metadata"] = json!({ "x": 1 });
        first
    };
    let second = |text: &str| chunk(text, json!({ "append": true, "metadata": { "n": 2 } }));
    let mut emptied = first();
    emptied["artifactUpdate"]["artifact"]["parts"][0]["text"] = "".into();
    assert_eq!(sent(vec![first(), second(" 6362 1486 end")]), [emptied, second(REDACTED)]);
    assert_eq!(sent(vec![first(), second(" end")]), [first(), second(" end")]);
}

#[test]
fn event_is_sent_when_its_text_is_final() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let first = || chunk("words ", json!({}));
    let rest = "more words ".repeat(30);
    let events = vec![first(), chunk(&rest, append())];
    assert_eq!(received(events, checks), [vec![], vec![first()], vec![chunk(&rest, append())]]);
    let checks = TextChecks { inspection: None, ..checks };
    let second = || chunk("x", append());
    assert_eq!(received(vec![first(), second()], checks), [vec![first()], vec![second()], vec![]]);
}

#[test]
fn long_word_is_sent_in_parts() {
    const CHUNKS: usize = 40_000;
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let received = received(stream(vec!["x"; CHUNKS]), checks);
    assert_eq!(text(&received.concat()).len(), CHUNKS);
    assert!(text(&received[..CHUNKS].concat()).len() > CHUNKS / 4);
}

#[test]
fn waiting_events_have_limited_memory() {
    let header = format!("-----BEGIN {} KEY-----\n", "PRIVATE");
    let many = |at: usize| chunk("x", json!({ "append": true, "metadata": { "n": at } }));
    let mut events = vec![chunk(&header, json!({}))];
    events.extend((0..4_000).map(many));
    let hidden = Hidden::new(&[], "agent.invalid");
    let inspection = redacting();
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let sent = received(events, checks);
    let waits = sent.iter().position(|events| !events.is_empty()).unwrap();
    assert!((300..3_000).contains(&waits), "{waits}");
}

#[test]
fn waiting_artifacts_have_limited_memory() {
    const BYTES: usize = 100_000;
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let artifact = |id: usize| {
        let mut update = chunk("card 4539 5787", json!({ "metadata": "x".repeat(BYTES) }));
        update["artifactUpdate"]["artifact"]["artifactId"] = id.into();
        update
    };
    let received = received((0..MAX_ARTIFACTS).map(artifact).collect(), checks);
    let mut waiting = 0;
    for (at, events) in received[..MAX_ARTIFACTS].iter().enumerate() {
        waiting += 1;
        waiting -= events.len();
        assert!(waiting * BYTES <= WAITING_BYTES + BYTES, "{waiting} events wait after {at}");
    }
    assert!(waiting * BYTES > WAITING_BYTES / 2, "the newest artifacts wait: {waiting}");
    assert_eq!(received.concat(), (0..MAX_ARTIFACTS).map(artifact).collect::<Vec<_>>());
}

#[test]
fn sentence_about_keys_is_sent() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let header = format!("Explain: -----BEGIN {} KEY----- is the header. ", "PRIVATE");
    let words = stream([header.as_str()].into_iter().chain(["some words "; 200]));
    let received = received(words, checks);
    assert!(text(&received[..100].concat()).len() > 100, "{received:?}");
}

#[test]
fn last_event_follows_waiting_text() {
    for state in ["COMPLETED", "FAILED", "INPUT_REQUIRED", "AUTH_REQUIRED"] {
        let last = || status(&format!("TASK_STATE_{state}"));
        let first = || chunk("one", json!({}));
        assert_eq!(sent(vec![first(), last()]), [first(), last()]);
    }
    let working = || status("TASK_STATE_WORKING");
    let events = vec![chunk("one", json!({})), working(), chunk("two", append())];
    assert_eq!(sent(events), [working(), chunk("onetwo", json!({}))]);
}

#[test]
fn artifacts_wait_for_their_own_texts() {
    let (start, end) = CARD.split_at(12);
    let events = vec![
        chunk(start, json!({})),
        other("x", json!({})),
        task(json!(null)),
        chunk(end, append()),
    ];
    let expected = [task(json!(null)), other("x", json!({})), chunk(REDACTED, json!({}))];
    assert_eq!(sent(events), expected);
}

#[test]
fn last_chunk_is_sent_at_once() {
    let (start, end) = CARD.split_at(12);
    let ended = || chunk(start, json!({ "lastChunk": true }));
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let received = received(vec![ended(), chunk(end, append())], checks);
    let redacted = chunk("[redacted:financial] end", append());
    assert_eq!(received, [vec![ended()], vec![], vec![redacted]], "a wrong chunk is inspected");
}

#[test]
fn invalid_update_continues_a_text() {
    let (start, end) = CARD.split_at(12);
    let with_id = |text: &str, id: Value| {
        let mut update = chunk(text, append());
        update["artifactUpdate"]["artifact"]["artifactId"] = id;
        update
    };
    for appends in [json!(1), json!("true"), json!({})] {
        let got = sent(vec![chunk(start, json!({})), chunk(end, json!({ "append": appends }))]);
        assert_eq!(text(&got), REDACTED, "{appends}");
    }
    let events = vec![with_id(start, json!("7")), with_id(end, json!(7))];
    assert_eq!(text(&sent(events)), REDACTED);
    for replaces in [json!(null), json!(false)] {
        let events = vec![chunk(start, json!({})), chunk(end, json!({ "append": replaces }))];
        assert_eq!(sent(events.clone()), events, "{replaces}");
    }
}

#[test]
fn late_text_waits_only_for_an_incomplete_value() {
    let inspection = redacting();
    let hidden = Hidden::new(&["http://agent.example".to_owned()], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let done = || chunk("step is done.", json!({}));
    let late = json!(2_000);
    let got = received(vec![done(), late.clone()], checks);
    assert_eq!(got, [vec![], vec![done()], vec![]]);
    let key = format!("-----BEGIN {} KEY-----\n", "PRIVATE");
    for open in
        ["card 4539 5787", "mail jane.doe@ac", "see agent.ex", "{\"n\": \"4539 5787\"}", &key]
    {
        let got = received(vec![done(), other(open, json!({})), late.clone()], checks);
        assert_eq!(got, [vec![], vec![], vec![done()], vec![other(open, json!({}))]], "{open}");
    }
    let (start, end) = CARD.split_at(12);
    let events = vec![chunk(start, json!({})), late.clone(), chunk(end, append()), late];
    let got = received(events, checks);
    assert!(got[..3].concat().is_empty());
    assert_eq!(text(&got[3]), REDACTED, "the text after a timeout is late, too");
}

#[test]
fn complete_result_is_sent_when_late() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    for result in ["The total is 42", r#"{"mail": "bob.split@firma.de", "ok": true}"#] {
        let expected = chunk(&whole(result, &inspection), json!({}));
        let working = status("TASK_STATE_WORKING");
        let events = vec![
            chunk(result, json!({})),
            json!(1_000),
            working.clone(),
            json!(1_000),
            working.clone(),
        ];
        let got = received(events, checks);
        assert_eq!(
            got[1..],
            [vec![], vec![working.clone()], vec![expected], vec![working], vec![]]
        );
    }
}

#[test]
fn stalled_text_waits_only_for_a_private_key() {
    let inspection = redacting();
    let hidden = Hidden::new(&["http://agent.example".to_owned()], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let link = "see https://example.com/reports/annual-overview";
    for open in ["card 4539 5787", "mail jane.doe@ac", "see agent.ex", link] {
        let events = vec![chunk(open, json!({})), json!(2_000), json!(28_000)];
        let got = received(events, checks);
        assert_eq!(got, [vec![], vec![], vec![chunk(open, json!({}))], vec![]], "{open}");
    }
    let key = chunk(&format!("-----BEGIN {} KEY-----\n", "PRIVATE"), json!({}));
    let got = received(vec![key.clone(), json!(2_000), json!(28_000)], checks);
    assert_eq!(got, [vec![], vec![], vec![], vec![key]]);
}

#[test]
fn written_word_waits_for_late_text() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let first = "This text has more than sixty-four bytes, so that it is not joined. ";
    for [start, end] in SPLIT_VALUES {
        let (start, end) = (format!("see {start}"), format!("{end} and more."));
        let expected = whole(&format!("{first}{start}{end}"), &inspection);
        assert!(expected.contains("[redacted:"), "{expected}");
        let first = || chunk(first, json!({}));
        let (start, end) = (chunk(&start, append()), chunk(&end, append()));
        let got = received(vec![first(), json!(1_800), start, json!(200), end], checks);
        assert_eq!(got[..4], [vec![], vec![], vec![], vec![first()]]);
        assert_eq!(text(&got.concat()), expected);
    }
}

#[test]
fn short_steps_are_sent_while_more_follow() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    // The number at the end of each step can be the beginning of a value.
    let steps = ["Step 1 of 9\n", "Step 2 of 9\n", "Step 3 of 9\n"];
    let events = stream(steps).into_iter().flat_map(|event| [event, json!(1_000)]).collect();
    let got = received(events, checks);
    assert_eq!(text(&got[..6].concat()), steps[..2].concat(), "after three seconds");
    assert_eq!(text(&got.concat()), steps.concat());
}

#[test]
fn pause_does_not_make_text_late() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let (mut tail, start) = (Tail::default(), Instant::now());
    let event = AgentEvent { event: chunk("mail jane.doe", json!({})), buffered: None };
    tail.add(StreamInput::Event(event), start, checks);
    let pause = Duration::from_mins(1);
    tail.pause(pause);
    assert!(tail.add(StreamInput::Timeout, start + pause, checks).events.is_empty());
    let late_at = start + pause + TEXT_WAIT;
    assert_eq!(tail.late_at(), Some(late_at));
    assert_eq!(tail.add(StreamInput::Timeout, late_at, checks).events.len(), 1);
}

#[test]
fn live_text_equals_the_redaction_of_the_whole() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let sentences =
        SPLIT_VALUES.map(|value| format!("Words before {} and after. ", value.concat()));
    // Another word is being written when the text has waited for two seconds.
    for before in 0..40 {
        let value = format!("{} {}", "x".repeat(before), sentences.concat().repeat(3));
        let characters: Vec<_> = characters(&value).collect();
        let chunks: Vec<_> = characters.chunks(4).map(<[_]>::concat).collect();
        let events = stream(chunks.iter().map(String::as_str));
        let events = events.into_iter().flat_map(|event| [event, json!(50)]).collect();
        let got = text(&received(events, checks).concat());
        assert_eq!(got, whole(&value, &inspection), "{before} characters before");
    }
}

#[test]
fn text_after_a_task_is_inspected_with_sent_text() {
    let (start, end) = CARD.split_at(12);
    let whole = |start: &str| task(json!([{ "artifactId": "a", "parts": [{ "text": start }] }]));
    let redacted = chunk("[redacted:financial] end", append());
    assert_eq!(sent(vec![whole(start), chunk(end, append())]), [whole(start), redacted]);
    let clean = || chunk(" end", append());
    assert_eq!(sent(vec![whole(start), clean()]), [whole(start), clean()], "unchanged text");
    let inspection = redacting();
    for value in long_values() {
        for at in cuts(&value) {
            let (start, rest) = value.split_at(at);
            let rest = chunk(&format!("{rest} end"), append());
            let got = text(&sent_with(vec![whole(&format!("x {start}")), rest], &inspection));
            assert_eq!(got, "[redacted:credential] end", "cut at {at}");
        }
    }
    let parts: Vec<_> =
        characters(&long_values()[0][..600]).map(|x| json!({ "text": x })).collect();
    let rest = chunk(&long_values()[0][600..], append());
    let got = sent(vec![task(json!([{ "artifactId": "a", "parts": parts }])), rest]);
    assert_eq!(text(&got), "[redacted:credential]");
}

#[test]
fn rest_of_a_sent_beginning_is_changed() {
    let inspection = redacting();
    for value in long_values() {
        for at in cuts(&value) {
            let (start, rest) = value.split_at(at);
            let asks = status("TASK_STATE_INPUT_REQUIRED");
            let rest = chunk(&format!("{rest} end"), append());
            let events = vec![chunk(&format!("x {start}"), json!({})), asks, rest];
            let sent = sent_with(events, &inspection);
            let got = text(&sent[2..]);
            assert!(got.starts_with("[redacted:credential]"), "cut at {at}: {got}");
            assert!(got.ends_with("] end"), "cut at {at}: {got}");
        }
    }
}

#[test]
fn contexts_have_limited_memory() {
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let begins = format!("{}{}", &long_values()[0][..100], "x".repeat(30 << 10));
    let artifact = |id: usize| json!({ "artifactId": id, "parts": [{ "text": begins }] });
    let artifacts: Vec<_> = (0..MAX_ARTIFACTS).map(artifact).collect();
    let mut tail = Tail::default();
    let event = task(artifacts.into());
    tail.add(StreamInput::Event(AgentEvent { event, buffered: None }), Instant::now(), checks);
    assert!((CONTEXTS_BYTES / 2..=CONTEXTS_BYTES).contains(&tail.bytes()), "{}", tail.bytes());
}

#[test]
fn other_parts_end_a_text() {
    let (start, end) = CARD.split_at(12);
    let mixed = |first: &str, last: &str| {
        let mut mixed = chunk_of(&[first, "", last], append());
        mixed["artifactUpdate"]["artifact"]["parts"][1] = json!({ "data": {} });
        mixed
    };
    let events = vec![chunk(start, json!({})), mixed(end, start), chunk(end, append())];
    // The last event is joined with the one before.
    let expected = [chunk("", json!({})), mixed(REDACTED, REDACTED)];
    assert_eq!(sent(events), expected);
}

#[test]
fn updates_without_content_continue_a_text() {
    let (start, end) = CARD.split_at(12);
    let with = |parts: Value| {
        let mut update = chunk("", append());
        update["artifactUpdate"]["artifact"]["parts"] = parts;
        update
    };
    let mut without = with(json!(null));
    without["artifactUpdate"]["artifact"] = json!({ "artifactId": "a", "metadata": { "n": 1 } });
    let last = json!([{ "text": "", "metadata": { "n": 1 } }, { "text": null }]);
    for empty in [with(json!([])), with(json!(null)), with(json!([{}])), with(last), without] {
        let events = vec![chunk(start, json!({})), empty.clone(), chunk(end, append())];
        let got = sent(events);
        assert_eq!(text(&got), REDACTED, "{empty}");
        assert_eq!(got[1], empty);
    }
    let null = with(json!([{ "text": null }]));
    let events = vec![chunk(start, json!({})), null, chunk(end, append())];
    assert_eq!(text(&sent(events)), REDACTED, "text of null");
}

#[test]
fn updates_without_content_keep_their_place() {
    let mut ends = chunk("", json!({ "append": true, "lastChunk": true }));
    ends["artifactUpdate"]["artifact"]["parts"] = json!([]);
    let events = || vec![chunk("one", json!({})), ends.clone()];
    assert_eq!(sent(events()), events());
    let inspection = redacting();
    let hidden = Hidden::new(&[], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: Some(&inspection) };
    let got = received(vec![ends.clone()], checks);
    assert_eq!(got, [vec![ends], vec![]], "nothing waits");
}

#[test]
fn value_can_end_within_a_waiting_event() {
    let words = " words".repeat(300);
    let text_of_key = format!("key: {}{words}", long_values()[0]);
    let (first, rest) = text_of_key.split_at(10);
    let (middle, last) = rest.split_at(5);
    let events = vec![chunk(first, json!({})), chunk_of(&[middle, last], append())];
    assert_eq!(text(&sent(events)), format!("key: [redacted:credential]{words}"));
}

/// Whether an event passes. Then it must equal the event that is sent after a check.
fn passes(context: &str, texts: [&str; 2], end: TextEnd) -> bool {
    let hidden = Hidden::new(&["http://agent.corp.example:8080".to_owned()], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: None };
    let run = || {
        let text = context.repeat(40);
        TextRun { sent: text.len(), text, ..TextRun::of(0, Instant::now()) }
    };
    let sent = || AgentEvent { event: chunk_of(&texts, append()), buffered: None };
    let (mut passing, mut checked) = (run(), run());
    let event = sent().event;
    let parts = event["artifactUpdate"]["artifact"]["parts"].as_array().unwrap();
    if !passing.passes(parts.iter().filter_map(text_of), end, checks) {
        assert_eq!((passing.text, passing.sent), (run().text, run().sent));
        return false;
    }
    checked.push(WaitingEvent::new(sent()), 0..2, Instant::now());
    let mut released = checked.release(end, checks, &mut Inspected::default());
    let (passed, passed_texts) = WaitingEvent::passed(sent(), 2).into_parts();
    let (expected, expected_texts) = released.pop().unwrap().into_parts();
    assert_eq!((passed.event, passed_texts), (expected.event, expected_texts));
    assert_eq!((passing.text, passing.sent), (checked.text, checked.sent));
    assert!(released.is_empty() && checked.waiting.is_empty());
    true
}

#[test]
fn passed_texts_equal_checked_texts() {
    let texts = ["", "é ", "x", "see http://", "agent.", "corp.example", ":80", "80/", "%2f"];
    for context in texts {
        let mut count = 0;
        for first in texts {
            for last in texts {
                let is_open = passes(context, [first, last], TextEnd::Open);
                let is_final = passes(context, [first, last], TextEnd::Final);
                assert!(is_final || !is_open);
                count += usize::from(is_open);
            }
        }
        assert!((20..81).contains(&count), "{count} with {context}");
    }
}

#[test]
fn address_that_spans_events_is_hidden() {
    let hidden = Hidden::new(&["http://agent.corp.example:8080".to_owned()], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: None };
    let value = "see http://agent.corp.example:8080/x, agent.corp.example and corp.example.";
    let expected = "see http://agent.invalid/x, agent.invalid and corp.example.";
    let got = received(stream(characters(value)), checks);
    assert_eq!(text(&got.concat()), expected);
    let inspection = redacting();
    for (first, rest) in (0..value.len()).map(|at| value.split_at(at)) {
        assert_eq!(text(&received(stream([first, rest]), checks).concat()), expected, "{first}");
        let checks = TextChecks { inspection: Some(&inspection), ..checks };
        assert_eq!(text(&received(stream([first, rest]), checks).concat()), expected, "{first}");
    }
}

#[test]
fn repetition_passes_only_after_passed_event() {
    let hidden = Hidden::new(&["http://agent.corp.example:8080".to_owned()], "agent.invalid");
    let checks = TextChecks { hidden: &hidden, inspection: None };
    let mut tail = Tail::default();
    let add = |tail: &mut Tail, event: Value| {
        let input = StreamInput::Event(AgentEvent { event, buffered: None });
        tail.add(input, Instant::now(), checks).events.len()
    };
    assert!(!tail.passes_repeat("a ", &hidden));
    assert_eq!(add(&mut tail, chunk("one ", json!({}))), 1);
    assert!(!tail.passes_repeat("a ", &hidden), "an artifact begins again");
    assert_eq!(add(&mut tail, chunk("two ", append())), 1);
    assert!(tail.passes_repeat("three ", &hidden) && tail.passes_repeat("see ", &hidden));
    assert!(!tail.passes_repeat("agent.corp", &hidden), "it can be the beginning of an address");
    assert_eq!(add(&mut tail, chunk("agent.corp", append())), 0);
    assert!(!tail.passes_repeat(".example ", &hidden), "an event waits");
    assert_eq!(add(&mut tail, chunk(".example ", append())), 1);
    assert!(!tail.passes_repeat("a ", &hidden), "the last event was changed");
    assert_eq!(add(&mut tail, chunk("four ", append())), 1);
    assert_eq!(add(&mut tail, status("TASK_STATE_WORKING")), 1);
    assert!(!tail.passes_repeat("a ", &hidden), "the last event is another one");
    assert_eq!(add(&mut tail, chunk("five ", json!({ "append": true, "lastChunk": true }))), 1);
    assert!(!tail.passes_repeat("a ", &hidden), "the text has ended");
}
