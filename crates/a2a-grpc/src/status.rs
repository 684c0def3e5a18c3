//! The status of a call in its trailers.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use crate::convert::{POOL, encode};

/// The code of a status. 0: the call succeeded.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The message of a status, percent-encoded.
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// `google.rpc.Status` in base64, with the details.
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The encoded characters of messages. Characters beyond ASCII are always encoded.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Maximum length of the message of a status in bytes. Clients accept 8 KiB of headers, and encoding
/// can triple the length.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Maximum length of the details of a status in bytes, before base64.
const MAX_DETAILS_BYTES: usize = 3072;

/// The trailers of a call that succeeded.
pub fn success() -> HeaderMap {
    HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))])
}

/// The trailers of a call that failed. A long message is shortened, and details without space are
/// omitted, the last ones first.
pub fn failure(code: i32, message: &str, details: &[Value]) -> HeaderMap {
    let message = &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)];
    let mut details = details;
    let mut status = encode_status(code, message, details);
    while status.len() > MAX_DETAILS_BYTES
        && let [first @ .., _] = details
    {
        details = first;
        status = encode_status(code, message, details);
    }
    let mut trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from(code))]);
    let texts = [
        (MESSAGE, utf8_percent_encode(message, ENCODED).to_string()),
        (DETAILS, STANDARD_NO_PAD.encode(status)),
    ];
    for (name, text) in texts {
        // Both texts are ASCII without control characters.
        if let Ok(value) = HeaderValue::try_from(text) {
            trailers.insert(name, value);
        }
    }
    trailers
}

/// Encodes `google.rpc.Status` with those details whose type is known: the standard ones of
/// `google.rpc`. Details of other types and invalid ones have no form in Protocol Buffers.
fn encode_status(code: i32, message: &str, details: &[Value]) -> Vec<u8> {
    let Some(descriptor) = POOL.get_message_by_name("google.rpc.Status") else { return Vec::new() };
    let status = |details: &[&Value]| {
        let status = json!({ "code": code, "message": message, "details": details });
        encode(descriptor.clone(), &status)
    };
    let known: Vec<_> = details.iter().filter(|detail| status(&[detail]).is_ok()).collect();
    status(&known).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::decode;

    fn read(trailers: &HeaderMap) -> Value {
        let bytes = STANDARD_NO_PAD.decode(trailers[DETAILS].as_bytes()).unwrap();
        decode(POOL.get_message_by_name("google.rpc.Status").unwrap(), &bytes).unwrap()
    }

    #[test]
    fn status_has_the_details_with_known_types() {
        let details = [
            json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org",
                "metadata": { "taskId": "t" } }),
            json!({ "@type": "type.googleapis.com/example.Unknown", "x": 1 }),
            json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s" }),
            json!({ "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": "/message", "description": "d" }] }),
            json!("text"),
        ];
        let trailers = failure(5, "no such task", &details);
        assert_eq!(trailers[STATUS], "5");
        assert_eq!(trailers[MESSAGE], "no such task");
        let known = [&details[0], &details[2], &details[3]];
        let expected = json!({ "code": 5, "message": "no such task", "details": known });
        assert_eq!(read(&trailers), expected);
    }

    #[test]
    fn trailers_fit_into_the_headers_of_clients() {
        let violation = |i: usize| {
            json!({ "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": format!("/{i}"), "description": "x".repeat(500) }] })
        };
        let trailers =
            failure(7, &"é%\n".repeat(2_000), &(0..32).map(violation).collect::<Vec<_>>());
        let bytes: usize = trailers.values().map(HeaderValue::len).sum();
        assert!(bytes < 8 * 1024, "{bytes}");
        assert!(trailers[MESSAGE].to_str().unwrap().starts_with("%C3%A9%25%0A"));
        assert_eq!(read(&trailers)["details"][0], violation(0));
    }

    #[test]
    fn successful_call_has_no_message() {
        assert_eq!(success().into_iter().collect::<Vec<_>>().len(), 1);
    }
}
