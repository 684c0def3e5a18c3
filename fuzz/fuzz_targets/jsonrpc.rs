//! JSON-RPC bodies: parsing never panics, respects its limits, and accepts only JSON.

#![no_main]

use gateway_protocol::jsonrpc::{Limits, Message, ResponsePayload, parse};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const BYTES: usize = 1 << 15;

fuzz_target!(|data: &[u8]| {
    let Ok(message) = parse(data, Limits::with_max_bytes(BYTES)) else { return };
    assert!(data.len() <= BYTES);
    let value: Value = serde_json::from_slice(data).expect("what is accepted is JSON");
    assert_eq!(value["jsonrpc"], "2.0");
    match message {
        Message::Request(request) => assert_eq!(value["method"], *request.method),
        Message::Notification(notification) => assert_eq!(value["method"], *notification.method),
        Message::Response(response) => match response.outcome {
            ResponsePayload::Result(_) => assert!(value.get("result").is_some()),
            ResponsePayload::Error(error) => assert_eq!(value["error"]["code"], error.code),
        },
    }
});
