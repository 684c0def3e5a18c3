//! The memory of a message after decoding, estimated from its encoded form.

use prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::{Kind, MessageDescriptor};

/// Largest depth that the decoder accepts.
const MAX_DEPTH: usize = 100;
/// Estimates of the memory of both forms of a message, which exist together during a conversion. A
/// field set of the descriptor library has 672 bytes for up to 11 fields, and an object of JSON 632.
const MESSAGE: usize = 1344;
/// A value has 56 bytes, a list grows to twice its length, and a map entry has 88 bytes.
const FIELD: usize = 320;

/// The memory of a message, in bytes. An invalid message is counted up to its error, like the
/// decoder reads it.
pub(crate) fn decoded_bytes(descriptor: &MessageDescriptor, message: &[u8]) -> usize {
    message.len() + fields_bytes(descriptor, message, 0)
}

fn fields_bytes(descriptor: &MessageDescriptor, mut rest: &[u8], depth: usize) -> usize {
    if rest.is_empty() || depth > MAX_DEPTH {
        return 0;
    }
    let mut bytes = MESSAGE;
    while !rest.is_empty() {
        bytes += FIELD;
        let Ok((number, wire_type)) = decode_key(&mut rest) else { break };
        let length = match wire_type {
            WireType::Varint if decode_varint(&mut rest).is_ok() => 0,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => {
                let length = decode_varint(&mut rest).ok();
                length.and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX)
            }
            // The fields of a group are counted as those of its message.
            WireType::StartGroup => {
                bytes += MESSAGE;
                0
            }
            WireType::EndGroup => 0,
            WireType::Varint => break,
        };
        let Some((value, after)) = rest.split_at_checked(length) else { break };
        rest = after;
        let is_packed = |kind: &Kind| {
            wire_type == WireType::LengthDelimited && !matches!(kind, Kind::String | Kind::Bytes)
        };
        bytes += match descriptor.get_field(number).map(|field| field.kind()) {
            Some(Kind::Message(nested)) => fields_bytes(&nested, value, depth + 1),
            Some(kind) if is_packed(&kind) => value.len() * FIELD,
            _ => 0,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{encode_request, request_bytes};

    fn estimated(data: &Value) -> (usize, usize) {
        let request = json!({ "message": { "parts": [{ "data": data }] } });
        let message = encode_request("SendMessage", &request).unwrap();
        (message.len(), request_bytes("SendMessage", &message))
    }

    #[test]
    fn estimate_counts_nested_values_not_text() {
        let (empty, base) = estimated(&json!([]));
        let (length, text) = estimated(&json!("x".repeat(100_000)));
        assert!(text < length + base, "{text}");
        let (length, items) = estimated(&json!(vec![json!([]); 1000]));
        assert!(length < empty + 5000 && items > 1_000_000, "{length} {items}");
    }

    #[test]
    fn estimate_of_invalid_message_is_finite() {
        for invalid in [&[0xff][..], &[0x0a, 0xff], &[0x12, 0xff, 0xff, 0xff, 0x0f], &[0x13, 0x14]]
        {
            assert!(request_bytes("SendMessage", invalid) < 10_000, "{invalid:?}");
        }
        assert_eq!(request_bytes("Other", &[1]), 0);
        assert_eq!(request_bytes("SendMessage", &[]), 0);
    }
}
