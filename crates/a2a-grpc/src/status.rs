//! The details of errors as `google.rpc.Status`.

use serde_json::{Value, json};

use super::{POOL, encode};

/// The name of the message.
const STATUS: &str = "google.rpc.Status";

/// Encodes the status of a failed call with those details whose type is known: the standard ones of
/// `google.rpc`. Details of other types and invalid ones have no form in Protocol Buffers.
pub fn encode_status(code: i32, message: &str, details: &[Value]) -> Vec<u8> {
    let Some(descriptor) = POOL.get_message_by_name(STATUS) else { return Vec::new() };
    let status = |details: &[&Value]| {
        let status = json!({ "code": code, "message": message, "details": details });
        encode(descriptor.clone(), &status)
    };
    let known: Vec<_> = details.iter().filter(|detail| status(&[detail]).is_ok()).collect();
    status(&known).unwrap_or_default()
}
