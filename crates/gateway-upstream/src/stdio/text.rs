//! Messages as lines of text.
//!
//! Deliberately absent: reading and writing them.

use bytes::Bytes;

/// A message is one line. Line breaks in JSON are white space, those in its strings are escaped.
pub(super) fn on_one_line(mut message: Vec<u8>) -> Bytes {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message.into()
}

/// Whose answer a line is of which only the ends are known: the id comes before the result in
/// most SDKs, and last in the others.
pub(super) fn response_id(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let compact: String = head.chars().filter(|character| !character.is_whitespace()).collect();
    let after = compact
        .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
        .or_else(|| compact.strip_prefix(r#"{"id":"#));
    if let Some((id, _)) = after.and_then(|rest| rest.split_once(',')) {
        return id.parse().ok();
    }
    let tail = String::from_utf8_lossy(tail);
    let (_, last) = tail.trim_end().strip_suffix('}')?.rsplit_once(r#","id":"#)?;
    last.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_that_is_too_long_is_recognised_by_its_ends() {
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
