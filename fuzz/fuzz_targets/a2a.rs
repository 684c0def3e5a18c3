//! A2A: parsing of requests, answers, streams and cards never panics, and an accepted request
//! survives the other version, or has no translation.

#![no_main]

use a2a::{
    Dialect, Operation, Request, Version,
    card::{Card, CardLimits, Facade, Shape},
    grpc, rest, rpc, signature,
    stream::EventReader,
    translate,
};
use gateway_protocol::jsonrpc::Limits;
use http::Method;
use libfuzzer_sys::fuzz_target;

const BYTES: usize = 1 << 15;

fuzz_target!(|input: (&str, &[u8])| {
    let (path, body) = input;
    let limits = Limits::with_max_bytes(BYTES);
    for version in Version::ALL {
        if let Ok(call) = rpc::read_call(version, body, limits) {
            for version in Version::ALL {
                let dialect = Dialect::json_rpc(version);
                let Ok(sent) = translate::request_out(dialect, &call.request) else { continue };
                let operation = call.request.operation;
                translate::request_in(dialect, operation, sent).expect("what is sent is read");
            }
        }
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let Ok(route) = rest::route(version, &method, path) else { continue };
            let _ = rest::read_call(version, route, Some(path), body, limits);
        }
        for operation in Operation::ALL {
            let _ = grpc::read_call(operation.name(), body);
            let _ = grpc::answer_bytes(operation, body);
            let _ = grpc::read_answer(operation, body, &grpc::success());
            let _ = rpc::read_answer(version, operation, 1, body, limits);
            let request = Request::new(operation, serde_json::Map::new());
            let _ = rest::read_answer(version, &request, 200, body, limits);
        }
        let dialects = [Dialect::json_rpc(version), Dialect::http_json(version), Dialect::grpc()];
        for dialect in dialects {
            let mut reader = EventReader::new(dialect, 1, limits);
            if reader.push(body).is_ok() {
                while let Some(event) = reader.next_event() {
                    let Ok(event) = event else { break };
                    let _ = reader.parsed_bytes(&event);
                    let _ = reader.read(&event);
                }
            }
        }
    }
    let Ok(card) = Card::parse(body, &CardLimits::default()) else { return };
    let facade = Facade { interfaces: card.interfaces(), ..Facade::default() };
    for shape in [Shape::V1, Shape::V03, Shape::Combined] {
        if let Ok(served) = card.publish(&facade, shape) {
            assert!(served.get("signatures").is_none());
        }
    }
    let _ = signature::headers(&card.to_value());
});
