//! The status of a call in its trailers.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use prost::Message as _;
use serde_json::{Value, json};

use crate::convert::{POOL, decode, encode};

/// The code of a status. 0: the call succeeded.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The message of a status, percent-encoded.
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// `google.rpc.Status` in base64, with the details.
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The encoded characters of messages. Characters beyond ASCII are always encoded.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The encoding of binary headers. Padding is optional for receivers, and senders omit it.
const BINARY: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum length of the message of a status in bytes. Clients accept 8 KiB of headers, and encoding
/// can triple the length.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Maximum length of the details of a status in bytes, before base64.
const MAX_DETAILS_BYTES: usize = 3072;

/// The status of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallStatus {
    /// The code. 0: the call succeeded.
    pub code: i32,
    /// The message.
    pub message: String,
    /// The details in their JSON form.
    pub details: Vec<Value>,
}

/// Reads the status of a call from its trailers. `None`: they have no valid one. Invalid details and
/// those of unknown types are omitted.
pub fn read(trailers: &HeaderMap) -> Option<CallStatus> {
    let code = trailers.get(STATUS)?.to_str().ok()?.parse().ok()?;
    let message = trailers.get(MESSAGE).map_or_else(String::new, |text| {
        percent_decode(text.as_bytes()).decode_utf8_lossy().into_owned()
    });
    let details = trailers.get(DETAILS).and_then(|status| decode_details(status.as_bytes()));
    Some(CallStatus { code, message, details: details.unwrap_or_default() })
}

fn decode_details(status: &[u8]) -> Option<Vec<Value>> {
    let bytes = BINARY.decode(status).ok()?;
    let status = tonic_types::pb::Status::decode(bytes.as_slice()).ok()?;
    let details = status.details.iter();
    Some(details.filter_map(|any| decode_detail(&any.type_url, &any.value)).collect())
}

fn decode_detail(type_url: &str, message: &[u8]) -> Option<Value> {
    let (_, name) = type_url.rsplit_once('/')?;
    let mut detail = decode(POOL.get_message_by_name(name)?, message).ok()?;
    detail.as_object_mut()?.insert("@type".to_owned(), type_url.into());
    Some(detail)
}

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
        (DETAILS, BINARY.encode(status)),
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

    const RETRY: &str = "type.googleapis.com/google.rpc.RetryInfo";

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
        let known = [0, 2, 3].map(|index| details[index].clone());
        let expected =
            CallStatus { code: 5, message: "no such task".to_owned(), details: known.into() };
        assert_eq!(read(&trailers), Some(expected));
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
        let status = read(&trailers).unwrap();
        assert_eq!(status.details[0], violation(0));
        assert!(status.message.starts_with("é%\né%\n"), "{}", status.message);
    }

    #[test]
    fn status_without_readable_details_is_read() {
        let retry = json!({ "@type": RETRY, "retryDelay": "2s" });
        let delay = &[0x0a, 2, 0x08, 2][..];
        let mut status = Vec::new();
        for detail in [any("x/example.Unknown", b"?"), any(RETRY, b"\xff"), any(RETRY, delay)] {
            status.extend([&[0x1a, u8::try_from(detail.len()).unwrap()][..], &detail].concat());
        }
        let padded = base64::engine::general_purpose::STANDARD.encode(&status);
        for (binary, details) in [(padded.as_str(), vec![retry]), ("%", vec![])] {
            let mut trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("14"))]);
            trailers.insert(DETAILS, binary.parse().unwrap());
            let expected = CallStatus { code: 14, message: String::new(), details };
            assert_eq!(read(&trailers), Some(expected));
        }
    }

    /// `google.protobuf.Any`.
    fn any(type_url: &str, value: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let type_url = type_url.as_bytes();
        [&[0x0a, length(type_url)][..], type_url, &[0x12, length(value)], value].concat()
    }

    #[test]
    fn missing_or_malformed_status_is_none() {
        assert_eq!(read(&HeaderMap::new()), None);
        for malformed in ["", "OK", "99999999999", "\u{e9}"] {
            let value = HeaderValue::from_bytes(malformed.as_bytes()).unwrap();
            assert_eq!(read(&HeaderMap::from_iter([(STATUS, value)])), None, "{malformed}");
        }
        assert_eq!(read(&success()).map(|status| status.code), Some(0));
    }

    #[test]
    fn successful_call_has_no_message() {
        assert_eq!(success().into_iter().collect::<Vec<_>>().len(), 1);
    }
}
