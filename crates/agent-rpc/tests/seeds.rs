//! Every message that the specifications print, verbatim. Three of them are no JSON, because they
//! contain `{...}` or alternatives; their placeholders are filled.

use std::time::Duration;

use agent_rpc::{
    Failure, Reason, Request,
    aio::Operation,
    envelope::{Answer, Message, Reply, read_message},
    execute::{Execute, Execution},
    graph::{Graph, Status},
    help::{AgentType, Help, Resource},
    media::{Media, Modality},
    registration::Registration,
    request::Call,
};
use gateway_protocol::jsonrpc::{Id, Limits, Object};
use serde_json::{Value, json, value::RawValue};

const LIMITS: Limits = Limits { bytes: 1 << 16, depth: 32 };

macro_rules! seed {
    ($name:literal) => {
        include_str!(concat!("seeds/", $name, ".json"))
    };
}

fn request(body: &str) -> Request<'_> {
    match Request::read(body.as_bytes(), LIMITS) {
        Ok(request) => request,
        Err(rejected) => panic!("{body}: {:?}", rejected.failure),
    }
}

fn answer(body: &str) -> Answer<'_> {
    match read_message(body.as_bytes(), LIMITS) {
        Ok(Message::Answer(answer)) => answer,
        other => panic!("{body}: {other:?}"),
    }
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("JSON")
}

/// The text of `params` or `arguments`, for the spelling as a tool.
fn params(body: &str) -> &RawValue {
    let raw: &RawValue = serde_json::from_str(body.trim()).expect("JSON");
    Object::parse(raw).expect("an object").find("params").expect("parameters")
}

const EXECUTE: &str = seed!("execute_request");

#[test]
fn execute_is_read_and_sent_to_agent() {
    let Request { id: None, trace_id: None, call: Call::Execute(call) } = request(EXECUTE) else {
        panic!("{EXECUTE}");
    };
    assert_eq!(
        (call.agent_id.as_str(), &*call.function),
        ("news_fetcher", "fetch_recent_articles")
    );
    assert_eq!(call.task_id, "task_001");
    let mut expected = parsed(EXECUTE.as_bytes());
    expected["jsonrpc"] = json!("2.0");
    expected["id"] = json!(7);
    assert_eq!(parsed(&call.write(Id::parse("7").expect("a value"))), expected);
}

#[test]
fn methods_are_read_as_tools() {
    for body in [EXECUTE, seed!("register_request"), seed!("heartbeat_request")] {
        let method = parsed(body.as_bytes())["method"].as_str().expect("a value").to_owned();
        let as_tool = Call::read(&method, Some(params(body))).expect("a value");
        assert_eq!(format!("{as_tool:?}"), format!("{:?}", request(body).call));
    }
    assert!(Call::read("agent.delete", None).unwrap_err().is(Reason::MethodNotFound));
}

#[test]
fn execute_without_task_id_is_invalid() {
    let body = EXECUTE.replace("task_id", "id");
    let rejected = Request::read(body.as_bytes(), LIMITS).unwrap_err();
    assert_eq!(
        (rejected.failure.code, &rejected.failure.data["pointer"]),
        (-32602, &json!("/meta/task_id"))
    );
}

#[test]
fn execute_response_is_read_and_written() {
    const BODY: &str = seed!("execute_response");
    let Answer { id: None, outcome: Ok(result) } = answer(BODY) else {
        panic!("{BODY}");
    };
    let execution = Execution { task_id: "task_001", duration: Duration::from_millis(134) };
    let reply = Reply { id: None, trace_id: None, execution: Some(execution) };
    let mut expected = parsed(BODY.as_bytes());
    expected["jsonrpc"] = json!("2.0");
    expected["id"] = Value::Null;
    expected["meta"]["task_id"] = json!("task_001");
    assert_eq!(parsed(&reply.result(result.get())), expected);
}

#[test]
fn register_is_read_with_schemas() {
    let Call::Register(read) = request(seed!("register_request")).call else { panic!() };
    assert_eq!(read.agent_id.as_str(), "feature_extractor");
    assert_eq!(
        (read.heartbeat_interval, &*read.resources),
        (Duration::from_mins(1), &["ohlcv_source".to_owned()][..])
    );
    let [function] = read.functions.as_slice() else { panic!("{read:?}") };
    assert_eq!(function.tool.as_str(), "feature_extractor.extract_features");
    let string = json!({ "type": "string" });
    assert_eq!(
        function.input_schema(),
        json!({
            "type": "object", "properties": { "interval": string, "symbol": string },
            "required": ["interval", "symbol"], "additionalProperties": false,
        })
    );
    let list = json!({ "type": "array", "items": { "type": "number" } });
    let output =
        json!({ "type": "object", "properties": { "features": list }, "required": ["features"] });
    assert_eq!(function.output_schema(), Some(output));
}

#[test]
fn flat_registration_is_read() {
    let raw: &RawValue = serde_json::from_str(seed!("register_flat").trim()).expect("a value");
    let read = Registration::read(Some(raw)).expect("a value");
    assert_eq!(read.functions[0].tool.as_str(), "binance_agent.fetch_ohlcv");
    assert_eq!(read.constraints.timeout, Some(Duration::from_secs(5)));
    assert_eq!(read.constraints.memory_bytes, Some(128_000_000));
    assert_eq!(Value::Object(read.constraints.sent), json!({ "timeout": 5, "memory": "128MB" }));
    let lists =
        json!({ "type": "array", "items": { "type": "array", "items": { "type": "number" } } });
    assert_eq!(read.functions[0].output_schema().expect("a value")["properties"]["ohlcv"], lists);
}

#[test]
fn heartbeat_other_than_active_is_unavailable() {
    const BODY: &str = seed!("heartbeat_request");
    for (body, is_available) in
        [(BODY.to_owned(), true), (BODY.replace("active", "draining"), false)]
    {
        let Call::Heartbeat(read) = request(&body).call else { panic!("{body}") };
        assert_eq!((read.agent_id.as_str(), read.is_available()), ("data_cleaner", is_available));
    }
}

#[test]
fn error_is_read_and_written() {
    const BODY: &str = seed!("error");
    let failure = answer(BODY).outcome.unwrap_err();
    assert!(failure.is(Reason::ToolError));
    let mut expected = parsed(BODY.as_bytes())["error"].clone();
    expected["data"]["reason"] = json!("AGENT_NOT_FOUND");
    let mut written = Failure::agent_not_found("unknown").to_value();
    written["message"] = expected["message"].clone();
    assert_eq!(written, expected);
}

#[test]
fn codes_are_those_of_specification() {
    for (failure, code) in [
        (Failure::function_not_found("a", "f"), -32601),
        (Failure::invalid_params("/input", "x"), -32602),
        (Failure::new(Reason::ToolError, "x"), -32000),
        (Failure::new(Reason::Timeout, "x"), -32001),
        (Failure::new(Reason::Unreachable, "x"), -32001),
        (Failure::id_in_use("t", "1"), -32600),
    ] {
        assert_eq!(failure.code, code, "{failure:?}");
    }
}

#[test]
fn aio_call_is_read() {
    const BODY: &str = seed!("call");
    let rejected = Request::read(BODY.as_bytes(), LIMITS).unwrap_err();
    assert!(rejected.failure.is(Reason::ParseError));
    let body = BODY.replace("{...}", "{}").replace("<namespace>::<method>", "math_agent::help");
    let Request { id, trace_id, call: Call::Aio(call) } = request(&body) else { panic!("{body}") };
    assert_eq!(
        (id.map(Id::as_raw), trace_id.as_deref()),
        (Some("1"), Some("AIO-TR-20250326-0001"))
    );
    assert!(matches!(call.operation, Operation::Help), "{call:?}");
    let other = body.replace("\"2.0\"", "\"1.0\"");
    assert_eq!(Request::read(other.as_bytes(), LIMITS).unwrap_err().failure.code, -32600);
}

#[test]
fn help_is_read_and_written() {
    let filled = seed!("help")
        .replace(r#""stdio" | "http" | "mcp""#, r#""mcp""#)
        .replace(
            r#""methods": [...]"#,
            r#""methods": [{"name": "add", "inputSchema": {"maximum": 1.10}}]"#,
        )
        .replace(r#""modalities": [...]"#, r#""modalities": ["text", "image"]"#);
    let help: Help = serde_json::from_str(&filled).expect("a value");
    assert_eq!(
        (help.kind, &*help.modalities),
        (AgentType::Mcp, &[Modality::Text, Modality::Image][..])
    );
    assert!(help.mcp.resources && help.mcp.prompts && help.mcp.tools && help.mcp.sampling);
    let written = serde_json::to_string(&help).expect("a value");
    insta::assert_snapshot!(written, @r#"{"type":"mcp","description":"","version":"","methods":[{"name":"add","description":"","inputSchema":{"maximum": 1.10}}],"modalities":["text","image"],"mcp":{"resources":true,"prompts":true,"tools":true,"sampling":true}}"#);
}

#[test]
fn graph_is_read_and_written() {
    let filled = seed!("graph").replace("{...}", r#"{"n": 1.10}"#);
    let graph: Graph = serde_json::from_str(&filled).expect("a value");
    let statuses: Vec<_> = graph.calls.iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Some(Status::Ok), None]);
    let written = serde_json::to_string(&graph).expect("a value");
    assert_eq!(parsed(written.as_bytes()), parsed(filled.as_bytes()));
    assert!(written.contains(r#""output":{"n": 1.10}"#), "{written}");
}

#[test]
fn resources_list_is_read_and_written() {
    let Request { id, trace_id, call: Call::Aio(call) } = request(seed!("resources_list_request"))
    else {
        panic!("not a call of AIO");
    };
    assert_eq!((id.map(Id::as_raw), trace_id.as_deref()), (Some("1"), Some("...")));
    assert_eq!(call.agent.as_str(), "agent");
    assert!(matches!(call.operation, Operation::ListResources), "{call:?}");
    let result = answer(seed!("resources_list_response")).outcome.expect("a value");
    let item = Resource::new("doc-001", "Spec Sheet", Some("application/pdf"));
    assert_eq!(parsed(result.get().as_bytes()), json!({ "resources": [item] }));
}

#[test]
fn tools_call_is_read() {
    let Call::Aio(call) = request(seed!("tools_call_request")).call else { panic!() };
    assert_eq!(call.agent.as_str(), "math_agent");
    let Operation::CallTool { tool, args: Some(args) } = call.operation else { panic!() };
    assert_eq!((&*tool, args.get()), ("calculate_area", r#"{ "x": 3, "y": 4 }"#));
}

#[test]
fn sampling_start_is_read() {
    let Call::Aio(call) = request(seed!("sampling_start_request")).call else { panic!() };
    assert_eq!(call.agent.as_str(), "llm_agent");
    let Operation::StartSampling { input: Media::Text(text) } = call.operation else { panic!() };
    assert_eq!(text, "Please summarize this document...");
}

#[test]
fn execute_survives_its_writing() {
    let Call::Execute(call) = request(EXECUTE).call else { panic!() };
    let sent = call.write(Id::parse("\"x\"").expect("a value"));
    let Call::Execute(again) = Request::read(&sent, LIMITS).expect("a value").call else {
        panic!()
    };
    let Execute { agent_id, function, input, task_id, meta } = again;
    assert_eq!((agent_id, function, task_id), (call.agent_id, call.function, call.task_id));
    assert_eq!((input.get(), meta.get()), (call.input.get(), call.meta.get()));
}
