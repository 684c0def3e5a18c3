//! Estimates the memory of messages before they are decoded, so that it can be reserved.

/// The memory of a message with fields, in bytes: a node of its fields, which has space for 11, and
/// a node of the members of its JSON form.
const MESSAGE: usize = 1_536;
/// The memory of a field or of an item of a list in both forms, in bytes.
const FIELD: usize = 256;
/// Maximum nesting of messages that decoders accept.
const MAX_DEPTH: usize = 100;

/// Estimates the memory of a message and its JSON form, in bytes. The estimate needs no type: texts
/// that are also valid messages count as such, so that it is too large rather than too small.
pub fn tree_bytes(message: &[u8]) -> usize {
    2 * message.len() + structure_bytes(message, 0)
}

/// The memory of fields and nested messages up to the first invalid byte, where a decoder stops.
fn structure_bytes(mut rest: &[u8], depth: usize) -> usize {
    let mut bytes = 0;
    while let Some((nested, after)) = field(rest) {
        bytes += if bytes == 0 { MESSAGE + FIELD } else { FIELD };
        if depth < MAX_DEPTH {
            bytes += structure_bytes(nested, depth + 1);
        }
        rest = after;
    }
    bytes
}

/// The content of the first field if it has a length, and the bytes after the field.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, after) = varint(bytes)?;
    let empty: &[u8] = &[];
    match tag & 7 {
        0 => Some((empty, varint(after)?.1)),
        1 => Some((empty, after.get(8..)?)),
        2 => {
            let (length, after) = varint(after)?;
            after.split_at_checked(usize::try_from(length).ok()?)
        }
        // The fields of a group count as fields of the message around it.
        3 | 4 => Some((empty, after)),
        5 => Some((empty, after.get(4..)?)),
        _ => None,
    }
}

/// A number of variable length, and the bytes after it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(index).ok()?).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::encode_response;

    #[test]
    fn nested_messages_and_items_are_counted() {
        let bytes = |parts: usize| {
            let part = json!({ "data": { "n": 1 } });
            let artifact = json!({ "artifactId": "a", "parts": vec![part; parts] });
            let task = json!({ "id": "t", "artifacts": [artifact] });
            tree_bytes(&encode_response("GetTask", &task).unwrap())
        };
        // Part, Value, Struct, its entry and the value of the entry.
        assert!(bytes(101) - bytes(1) >= 100 * 5 * MESSAGE);
        assert!(bytes(101) - bytes(1) < 100 * 8 * (MESSAGE + FIELD));
    }

    #[test]
    fn text_counts_its_length() {
        let text = |length: usize| {
            let part = json!({ "text": "~".repeat(length) });
            let message = json!({ "message": { "messageId": "m", "parts": [part] } });
            tree_bytes(&encode_response("SendMessage", &message).unwrap())
        };
        assert!(text(100_000) < 2 * 100_000 + 10 * (MESSAGE + FIELD));
    }

    #[test]
    fn invalid_end_does_not_hide_fields() {
        let empty_fields = [0x0a, 0].repeat(1_000);
        for end in [&b""[..], &[7], &[0x0b], &[0x0a, 9], &[255; 11]] {
            assert!(tree_bytes(&[&empty_fields[..], end].concat()) >= 1_000 * FIELD, "{end:?}");
        }
    }
}
