//! Streams in each dialect.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn limits() -> Limits {
    Limits::with_max_bytes(4096)
}

fn dialects() -> [(Dialect, Option<Id<'static>>); 4] {
    let id = Id::parse("1").ok();
    [
        (Dialect::json_rpc(Version::V1), id),
        (Dialect::json_rpc(Version::V03), id),
        (Dialect::http_json(Version::V1), None),
        (Dialect::http_json(Version::V03), None),
    ]
}

fn stream() -> Vec<Value> {
    let status = json!({ "state": "TASK_STATE_WORKING" });
    vec![
        json!({ "task": { "id": "t", "contextId": "c", "status": status } }),
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "lastChunk": true,
            "artifact": { "artifactId": "a", "parts": [{ "text": "one\ntwo é" }] } } }),
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } }),
    ]
}

proptest! {
    #[test]
    fn streams_survive_every_dialect_and_chunk(size in 1_usize..200) {
        for (dialect, id) in dialects() {
            let mut text = KEEP_ALIVE.to_vec();
            for event in stream() {
                write_event(&mut text, dialect.version, id, event).unwrap();
            }
            let failure = Failure::task_not_found("t");
            text.extend(write_failure(dialect.version, id, &failure));
            let mut reader = EventReader::new(dialect, 1, limits());
            let mut read = Vec::new();
            for chunk in text.chunks(size) {
                reader.push(chunk).unwrap();
                while let Some(event) = reader.next_event() {
                    read.push(reader.read(&event.unwrap()));
                }
            }
            prop_assert_eq!(read.pop(), Some(Err(failure)));
            prop_assert_eq!(read.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), stream());
            prop_assert_eq!(reader.held_bytes(), 0);
        }
    }

    #[test]
    fn repeated_events_equal_parsed_events(
        texts in proptest::collection::vec("[a\"\\\\\né]{0,4}", 1..12),
        escapes in any::<bool>(),
        breaks in proptest::collection::vec(any::<bool>(), 12),
    ) {
        for (dialect, id) in dialects() {
            let mut reader = EventReader::new(dialect, 1, limits());
            let (mut template_written, mut repeats) = (None, 0);
            for (text, is_other) in texts.iter().zip(&breaks) {
                let mut event = stream().remove(1);
                let update = &mut event["artifactUpdate"];
                update["artifact"]["parts"][0]["text"] = text.as_str().into();
                update["lastChunk"] = (*is_other).into();
                let mut expected = Vec::new();
                write_event(&mut expected, dialect.version, id, event.clone()).unwrap();
                let sent = String::from_utf8(expected.clone()).unwrap();
                let sent = if escapes { sent.replace('é', "\\u00e9") } else { sent };
                reader.push(sent.as_bytes()).unwrap();
                let data = reader.next_event().unwrap().unwrap();
                let read = reader.read_next(data).unwrap();
                let mut written = Vec::new();
                match &read {
                    StreamEvent::Repeat(repeat) => {
                        let template = template_written.as_ref().unwrap();
                        write_repeat(&mut written, template, repeat.text());
                        repeats += 1;
                    }
                    StreamEvent::Whole(read) | StreamEvent::Template(read) => {
                        write_event(&mut written, dialect.version, id, read.clone()).unwrap();
                    }
                }
                if matches!(read, StreamEvent::Template(_)) {
                    template_written = template(&written, id);
                }
                prop_assert_eq!(written, expected);
                prop_assert_eq!(read.into_value().unwrap(), event);
            }
            let pairs = breaks[..texts.len()].windows(2).filter(|pair| pair[0] == pair[1]).count();
            let expected = if dialect.version == Version::V1 { pairs } else { 0 };
            let is_ended = texts.len() - pairs > usize::from(TEMPLATES);
            prop_assert!(repeats == expected || is_ended);
        }
    }

    #[test]
    fn arbitrary_streams_never_panic(bytes in "(data: \\PC{0,30}\n{1,2}){0,5}") {
        for (dialect, _) in dialects() {
            let mut reader = EventReader::new(dialect, 1, limits());
            reader.push(bytes.as_bytes()).unwrap();
            while let Some(event) = reader.next_event() {
                let _ = reader.read(&event.unwrap());
            }
        }
    }
}

#[test]
fn long_events_are_rejected() {
    let mut reader = EventReader::new(Dialect::http_json(Version::V1), 1, limits());
    let long = format!("data: {}\n\n", "x".repeat(5000));
    assert!(reader.push(long.as_bytes()).unwrap_err().is_invalid_answer());
}

#[test]
fn final_event_of_old_agents_ends_the_stream() {
    let update = |is_final: bool| json!({ "taskId": "t", "contextId": "c", "status": { "state": "working" }, "final": is_final });
    for is_final in [true, false] {
        let mut marked = update(is_final);
        marked["kind"] = "status-update".into();
        let response = json!({ "jsonrpc": "2.0", "id": 1, "result": marked });
        for (dialect, event) in [
            (Dialect::json_rpc(Version::V03), response),
            (Dialect::http_json(Version::V03), json!({ "statusUpdate": update(is_final) })),
        ] {
            let mut reader = EventReader::new(dialect, 1, limits());
            reader.push(format!("data: {event}\n\n").as_bytes()).unwrap();
            let data = reader.next_event().unwrap().unwrap();
            reader.read(&data).unwrap();
            assert_eq!(reader.is_final(), is_final, "{event}");
        }
    }
}

#[test]
fn messages_of_grpc_are_events() {
    let written = |event: &Value| grpc::write_answer(Operation::SubscribeToTask, event).unwrap();
    let body: Vec<u8> = stream().iter().flat_map(written).collect();
    for size in [1, 7, 1_000] {
        let mut reader = EventReader::new(Dialect::grpc(), 0, limits());
        let mut events = Vec::new();
        for chunk in body.chunks(size) {
            reader.push(chunk).unwrap();
            while let Some(event) = reader.next_event() {
                let data = event.unwrap();
                assert!(reader.parsed_bytes(&data) > 10 * data.len());
                events.push(reader.read(&data).unwrap());
            }
        }
        assert_eq!(events, stream());
        reader.end(&grpc::success()).unwrap();
        let failure = Failure::task_not_found("t");
        assert_eq!(reader.end(&grpc::write_failure(&failure)), Err(failure));
        assert!(reader.push(&[0, 255, 255, 255, 255]).is_err(), "a message beyond the limit");
    }
}

#[test]
fn templates_end_without_repetitions() {
    let mut reader = EventReader::new(Dialect::http_json(Version::V1), 1, limits());
    let mut read = |number: u8, text: &str| {
        let mut event = stream().remove(1);
        event["artifactUpdate"]["metadata"] = json!({ "number": number });
        event["artifactUpdate"]["artifact"]["parts"][0]["text"] = text.into();
        reader.read_next(event.to_string().into_bytes()).unwrap()
    };
    for number in 0..TEMPLATES {
        assert!(matches!(read(number, "a"), StreamEvent::Template(_)));
    }
    let StreamEvent::Repeat(repeat) = read(TEMPLATES - 1, "b") else { panic!("no repetition") };
    assert_eq!(repeat.text(), "b");
    for number in 0..TEMPLATES {
        assert!(matches!(read(number, "a"), StreamEvent::Template(_)));
    }
    assert!(matches!(read(TEMPLATES, "a"), StreamEvent::Whole(_)));
}

#[test]
fn only_artifacts_with_text_are_templates() {
    let mut reader = EventReader::new(Dialect::http_json(Version::V1), 1, limits());
    let [task, artifact, status] = stream().try_into().unwrap();
    let with_part = |part: Value| {
        let mut event = artifact.clone();
        event["artifactUpdate"]["artifact"]["parts"] = json!([part]);
        event
    };
    for (event, is_template) in [
        (task, false),
        (with_part(json!({ "text": "a" })), true),
        (with_part(json!(["a"])), false),
        (with_part(json!({ "data": "a" })), false),
        (status, false),
    ] {
        let read = reader.read_next(event.to_string().into_bytes()).unwrap();
        assert_eq!(matches!(read, StreamEvent::Template(_)), is_template, "{event}");
    }
}
