//! Messages as lines of text.

use bytes::Bytes;

/// Writes a message as one line. Line breaks between JSON tokens are replaced; those in strings are
/// escaped already.
pub fn on_one_line(mut message: Vec<u8>) -> Bytes {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message.into()
}

/// The id of the request that a response belongs to, from the ends of its line.
pub(super) fn response_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    id_at_ends(head, tail)?.parse().ok()
}

/// The id of a message, as JSON text, if only the ends of its line are known. Most SDKs write the id
/// before the content, the others at the end.
pub fn id_at_ends(head: &[u8], tail: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let compact: String = head.chars().filter(|character| !character.is_whitespace()).collect();
    let after = compact
        .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
        .or_else(|| compact.strip_prefix(r#"{"id":"#));
    if let Some((id, _)) = after.and_then(|rest| rest.split_once(',')) {
        return Some(id.to_owned());
    }
    let tail = String::from_utf8_lossy(tail);
    let (_, last) = tail.trim_end().strip_suffix('}')?.rsplit_once(r#","id":"#)?;
    Some(last.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_response_is_identified_by_its_ends() {
        for (head, tail, id) in [
            (r#"{"jsonrpc": "2.0", "id": 7, "result": {"#, r#""}}"#, Some(7)),
            (r#"{"id":8,"jsonrpc":"2.0","result":{"#, r#""}}"#, Some(8)),
            (r#"{"result":{"id":1,"#, r#"},"jsonrpc":"2.0","id":9}"#, Some(9)),
            (r#"{"result":{"id":1,"#, r#","id":9}}"#, None),
            (r#"{"jsonrpc":"2.0","id":"x","result":{"#, r#""}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"m","params":{"#, r#""}}"#, None),
            ("aaaa", "aaaa", None),
        ] {
            assert_eq!(response_id(head.as_bytes(), tail.as_bytes()), id, "{head}");
        }
    }

    #[test]
    fn messages_are_one_line() {
        let line = on_one_line(b"{\r\n\"a\":\"b\\n\"}".to_vec());
        assert_eq!(line, b"{  \"a\":\"b\\n\"}\n".as_slice());
    }
}
