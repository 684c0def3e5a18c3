//! Examples, and properties over arbitrary bytes.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const LIMITS: Limits = Limits { bytes: 4096, depth: 8 };

fn invalid(body: &str) -> InvalidMessage {
    parse(body.as_bytes(), LIMITS).expect_err(body)
}

/// Serializes a parsed message.
fn rewrite(message: &Message<'_>) -> Vec<u8> {
    let written = match message {
        Message::Request(Request { id, method, params }) => match params {
            Some(params) => request(*id, method, params.get()),
            None => request(*id, method, "{}"),
        },
        Message::Notification(Notification { method, params }) => {
            notification(method, params.map(RawValue::get))
        }
        Message::Response(Response { id, outcome: ResponsePayload::Error(object) }) => {
            error(*id, object)
        }
        Message::Response(Response { id, outcome: ResponsePayload::Result(value) }) => {
            result(id.expect("a result has an id"), value.get())
        }
    };
    written.to_vec()
}

#[test]
fn request_parts_are_unchanged() {
    let body = br#" {"id": "a\u0041", "method":"tools\/call","x":{"id":1},
        "params":{"n":1.50e3, "a":[]} ,"jsonrpc":"2.0"}"#;
    let Message::Request(request) = parse(body, LIMITS).unwrap() else { panic!("a request") };
    assert_eq!(request.id.as_raw(), r#""a\u0041""#);
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params.unwrap().get(), r#"{"n":1.50e3, "a":[]}"#);
}

#[test]
fn responses_are_parsed() {
    let body = br#"{"jsonrpc":"2.0","id":-7,"result":null}"#;
    let Message::Response(response) = parse(body, LIMITS).unwrap() else { panic!("a response") };
    assert_eq!(response.id.unwrap().as_raw(), "-7");
    assert!(matches!(response.outcome, ResponsePayload::Result(raw) if raw.get() == "null"));

    let body = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no \"JSON\""}}"#;
    let Message::Response(response) = parse(body, LIMITS).unwrap() else { panic!("a response") };
    assert!(response.id.is_none());
    let ResponsePayload::Error(object) = response.outcome else { panic!("an error") };
    assert_eq!((object.code, object.message.as_ref()), (code::PARSE_ERROR, "no \"JSON\""));
    assert_eq!(
        error(None, &object),
        br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no \"JSON\""}}"#.as_slice()
    );
}

#[test]
fn result_is_read_with_its_envelope() {
    let read = |result: &str| {
        let body = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":1}}"#);
        match parse_with_result::<u8>(body.as_bytes(), LIMITS) {
            Ok(Message::Response(Response { outcome: ResponsePayload::Result(value), .. })) => {
                Ok(value)
            }
            other => Err(other.unwrap_err()),
        }
    };
    assert_eq!(read("7"), Ok(7));
    assert!(matches!(read("[]"), Err(InvalidMessage::Syntax { line: 1, .. })));
    assert_eq!(read(r#"7,"result":8"#), Err(InvalidMessage::Duplicate("result")));
}

#[test]
fn invalid_messages_are_rejected_by_reason() {
    use InvalidMessage::{
        Batch, Duplicate, ErrorObject, Id, Kind, Method, NotAnObject, Params, Syntax, TooDeep,
        TooLarge, Version,
    };
    let request = |rest: &str| format!(r#"{{"jsonrpc":"2.0",{rest}}}"#);
    let syntax = |column| Syntax { line: 1, column };
    for (body, expected) in [
        (String::new(), syntax(0)),
        ("{".into(), syntax(1)),
        ("{}x".into(), syntax(3)),
        ("5".into(), NotAnObject),
        ("[".into(), syntax(1)),
        (format!("[{}]", request(r#""id":1,"method":"a""#)), Batch),
        (r#"{"id":1,"method":"a"}"#.into(), Version),
        (r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#.into(), Version),
        (request(r#""id":1,"method":"a","method":"b""#), Duplicate("method")),
        (request(r#""id":1,"\u0069d":2,"method":"a""#), Duplicate("id")),
        (request(r#""id":null,"method":"a""#), Id),
        (request(r#""id":1.5,"method":"a""#), Id),
        (request(r#""id":1e3,"method":"a""#), Id),
        (request(r#""id":{},"method":"a""#), Id),
        (request(r#""id":1,"method":5"#), Method),
        (request(r#""id":1,"method":"a","params":[1]"#), Params),
        (request(r#""id":1"#), Kind),
        (request(r#""id":1,"method":"a","result":1"#), Kind),
        (request(r#""id":1,"error":{},"result":1"#), Kind),
        (request(r#""id":1,"error":{"code":1}"#), ErrorObject),
        (request(r#""id":1,"error":{"code":1,"code":2,"message":"a"}"#), ErrorObject),
        (request(r#""result":1"#), Id),
        (request(&format!(r#""id":"{}","method":"a""#, "x".repeat(1024))), Id),
        (
            request(&format!(r#""id":1,"method":"{}""#, "x".repeat(5000))),
            TooLarge { limit_bytes: 4096 },
        ),
        (request(&format!(r#""x":{}1{}"#, "[".repeat(8), "]".repeat(8))), TooDeep { limit: 8 }),
    ] {
        assert_eq!(invalid(&body), expected, "{body}");
    }
    assert_eq!(parse(b"{\"a\xff\":1}", LIMITS).unwrap_err(), syntax(4));
}

#[test]
fn valid_id_of_rejected_request_is_readable() {
    for (body, expected) in [
        (r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#, Some("7")),
        (r#"{"id":"a\u0041"}"#, Some(r#""a\u0041""#)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":[[[[[[[[[[]]]]]]]]]]}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","id":null,"method":5}"#, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}"#, None),
        (r#"{"jsonrpc":"2.0","method":5}"#, None),
        (r#"[{"jsonrpc":"2.0","id":7,"method":"a"}]"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"#, None),
    ] {
        invalid(body);
        assert_eq!(readable_id(body.as_bytes()).map(Id::as_raw), expected, "{body}");
    }
    assert_eq!(readable_id(b"{\"id\":7,\"\xff\":1}"), None);
}

#[test]
fn brackets_in_strings_do_not_nest() {
    let text = "[{\\\"".repeat(50);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":"{text}"}}}}"#);
    assert!(parse(body.as_bytes(), LIMITS).is_ok());
}

#[test]
fn objects_are_split_and_rebuilt() {
    let raw = RawValue::from_string(r#"{"a": 1.0 ,"b\n":{"a":2},"c":"x"}"#.into()).unwrap();
    let object = Object::parse(&raw).unwrap();
    assert_eq!(object.find("a").unwrap().get(), "1.0");
    assert!(object.find("d").is_none());
    let mut writer = ObjectWriter::with_capacity(10);
    for member in object.members() {
        writer.member(&member.name, member.value.get());
    }
    writer.string("d", "\"\u{1}");
    assert_eq!(writer.finish_string(), r#"{"a":1.0,"b\n":{"a":2},"c":"x","d":"\"\u0001"}"#);

    let others: Vec<_> = (0..100).map(|n| format!(r#""{n}":0,"#)).collect();
    let others = others.concat();
    for others in ["", others.as_str()] {
        let twice = format!(r#"{{"a":1,{others}"\u0061":2}}"#);
        let twice = RawValue::from_string(twice).unwrap();
        assert_eq!(Object::parse(&twice).unwrap_err(), InvalidObject);
    }
    assert_eq!(ObjectWriter::with_capacity(0).finish(), b"{}".as_slice());
}

#[test]
fn object_keeps_order_of_any_number_of_members() {
    for count in 0..12 {
        let names: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        let members: Vec<String> = names.iter().map(|name| format!(r#""{name}":0"#)).collect();
        let raw = RawValue::from_string(format!("{{{}}}", members.join(","))).unwrap();
        let object = Object::parse(&raw).unwrap();
        let read: Vec<&str> = object.members().iter().map(|member| &*member.name).collect();
        assert_eq!(read, names);
        assert!(object.find("").is_none());
    }
}

/// Texts that are almost messages.
fn nearly_messages() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        " ",
        "null",
        "1",
        "-2",
        "1.5",
        "\"2.0\"",
        "\"jsonrpc\":\"2.0\",",
        "\"id\":1,",
        "\"id\":\"x\",",
        "\"method\":\"m\"",
        "\"params\":{}",
        "\"result\":{}",
        "\"error\":{\"code\":1,\"message\":\"m\"}",
        "\"error\":1",
        "\u{e9}",
    ]);
    prop::collection::vec(pieces, 0..12).prop_map(|pieces| {
        let inner = pieces.concat();
        if inner.len() % 3 == 0 { inner.into_bytes() } else { format!("{{{inner}}}").into_bytes() }
    })
}

/// Valid messages with arbitrary content.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![any::<i64>().prop_map(Value::from), ".{0,20}".prop_map(Value::from)];
    let content = prop::collection::btree_map(".{0,8}", any::<f64>(), 0..4);
    (id, ".{0,20}", content, 0..4_u8).prop_map(|(id, text, content, kind)| {
        let message = match kind {
            0 => serde_json::json!({"jsonrpc": "2.0", "id": id, "method": text, "params": content}),
            1 => serde_json::json!({"jsonrpc": "2.0", "method": text}),
            2 => serde_json::json!({"jsonrpc": "2.0", "id": id, "result": content}),
            _ => serde_json::json!({"jsonrpc": "2.0", "id": id,
                "error": {"code": -1, "message": text, "data": content}}),
        };
        message.to_string().into_bytes()
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse(&body, LIMITS);
    }

    #[test]
    fn accepted_messages_are_json_and_round_trip(body in prop_oneof![nearly_messages(), messages()]) {
        let Ok(message) = parse(&body, LIMITS) else { return Ok(()) };
        let written = rewrite(&message);
        let again = parse(&written, LIMITS).expect("a serialized message parses");
        prop_assert_eq!(&written, &rewrite(&again));
        let before: Value = serde_json::from_slice(&body).expect("accepted, so JSON");
        let after: Value = serde_json::from_slice(&written).expect("written, so JSON");
        for name in ["id", "method", "result", "error"] {
            let absent = before.get(name).is_none_or(Value::is_null);
            prop_assert!(absent || before.get(name) == after.get(name), "{} of {}", name, before);
        }
    }

    #[test]
    fn every_valid_message_is_accepted(body in messages()) {
        prop_assert!(parse(&body, LIMITS).is_ok());
    }
}
