//! Length-prefixed messages: one byte for compression, four for the length, and the message.

/// The length of a prefix in bytes.
const PREFIX: usize = 5;

/// A body that is not one uncompressed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// The body ends before its message, or continues after it.
    #[error("the body is not exactly one length-prefixed message")]
    Length,
    /// The message is compressed.
    #[error("compressed messages are not supported; send with grpc-encoding: identity")]
    Compressed,
}

/// The message of a body with exactly one.
pub fn message(body: &[u8]) -> Result<&[u8], InvalidFrame> {
    let (prefix, message) = body.split_first_chunk::<PREFIX>().ok_or(InvalidFrame::Length)?;
    let [compression, length @ ..] = *prefix;
    if compression != 0 {
        return Err(InvalidFrame::Compressed);
    }
    let announced = usize::try_from(u32::from_be_bytes(length));
    if announced == Ok(message.len()) { Ok(message) } else { Err(InvalidFrame::Length) }
}

/// A message with its prefix. Receivers reject messages of 4 GiB and more.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(PREFIX + message.len());
    frame.push(0);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_contains_exactly_one_message() {
        for sent in [&b""[..], b"x", &[7; 300]] {
            let framed = frame(sent);
            assert_eq!(message(&framed), Ok(sent));
            assert_eq!(message(&framed[..framed.len() - 1]), Err(InvalidFrame::Length));
            assert_eq!(message(&[&framed[..], b"y"].concat()), Err(InvalidFrame::Length));
        }
        assert_eq!(message(&[]), Err(InvalidFrame::Length));
        assert_eq!(message(&[0, 255, 255, 255, 255]), Err(InvalidFrame::Length));
        assert_eq!(message(&[1, 0, 0, 0, 0]), Err(InvalidFrame::Compressed));
    }
}
