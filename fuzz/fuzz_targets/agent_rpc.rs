//! Data agents, AIO and the orchestrator: parsing never panics, an accepted call of a data agent
//! survives its writing, and accepted registrations have schemas of objects.

#![no_main]

use agent_rpc::{
    Request,
    envelope::{Message, read_message},
    graph::Graph,
    help::Help,
    media::Media,
    orchestrator,
    request::Call,
    tool_name,
};
use gateway_protocol::jsonrpc::{Id, Limits};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const LIMITS: Limits = Limits { bytes: 1 << 15, depth: Limits::DEPTH };

fuzz_target!(|body: &[u8]| {
    match Request::read(body, LIMITS) {
        Ok(Request { call: Call::Execute(call), .. }) => {
            let id = Id::parse("7").expect("an integer is an id");
            let sent = call.write(id);
            let limits = Limits { bytes: 2 * LIMITS.bytes, depth: LIMITS.depth };
            let again = Request::read(&sent, limits).expect("what is sent is read");
            let Call::Execute(again) = again.call else { panic!("another method") };
            assert_eq!(again.input.get(), call.input.get());
            assert_eq!(again.meta.get(), call.meta.get());
        }
        Ok(Request { call: Call::Register(registration), .. }) => {
            for function in &registration.functions {
                let name = tool_name::provider_name(function.tool.as_str());
                assert!(name.len() <= 64, "{name}");
                let schemas = [Some(function.input_schema()), function.output_schema()];
                for schema in schemas.into_iter().flatten() {
                    assert_eq!(schema["type"], "object");
                }
            }
        }
        Ok(_) => {}
        Err(rejected) => {
            let reply = rejected.reply();
            serde_json::from_slice::<Value>(&reply).expect("a reply is JSON");
        }
    }
    if let Ok(Message::Answer(answer)) = read_message(body, LIMITS) {
        let _ = answer.outcome.map_err(|failure| failure.to_value());
    }
    let _ = orchestrator::Execute::read(body, LIMITS);
    let _ = serde_json::from_slice::<Help>(body);
    let _ = serde_json::from_slice::<Graph>(body);
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return };
    for media in [Media::of_mcp(&value), Media::of_a2a(&value)].into_iter().flatten() {
        let _ = (media.to_value(), media.to_mcp(), media.to_a2a());
    }
});
