//! Length-prefixed messages: one byte for compression, four for the length, and the message.

/// The length of a prefix in bytes.
const PREFIX: usize = 5;

/// Bytes that are not uncompressed messages of allowed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// The body ends before its message, or continues after it.
    #[error("the body is not exactly one length-prefixed message")]
    Length,
    /// The message is compressed.
    #[error("compressed messages are not supported; send with grpc-encoding: identity")]
    Compressed,
    /// The message exceeds the limit of its receiver.
    #[error("a message exceeds {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

/// The message of a body with exactly one.
pub fn message(body: &[u8]) -> Result<&[u8], InvalidFrame> {
    let (prefix, message) = body.split_first_chunk::<PREFIX>().ok_or(InvalidFrame::Length)?;
    if is_compressed(*prefix) {
        return Err(InvalidFrame::Compressed);
    }
    if announced(*prefix) == message.len() { Ok(message) } else { Err(InvalidFrame::Length) }
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

/// The messages of a stream, read from chunks of any size.
#[derive(Debug)]
pub struct Messages {
    held: Vec<u8>,
    /// The length of the messages at the start of `held` that were popped.
    popped: usize,
    limit: usize,
}

impl Messages {
    /// Creates a reader of messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { held: Vec::new(), popped: 0, limit }
    }

    /// Adds the next bytes. Pop all messages before the next chunk, so that the memory is bounded by
    /// a chunk and a message.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), InvalidFrame> {
        self.held.drain(..self.popped);
        self.popped = 0;
        self.held.extend_from_slice(chunk);
        match self.held.first_chunk::<PREFIX>() {
            Some(prefix) if announced(*prefix) > self.limit => {
                Err(InvalidFrame::TooLong { limit: self.limit })
            }
            _ => Ok(()),
        }
    }

    /// The next complete message.
    pub fn pop(&mut self) -> Option<Result<Vec<u8>, InvalidFrame>> {
        let (prefix, after) = self.held[self.popped..].split_first_chunk::<PREFIX>()?;
        if is_compressed(*prefix) {
            return Some(Err(InvalidFrame::Compressed));
        }
        let message = after.get(..announced(*prefix))?.to_vec();
        self.popped += PREFIX + message.len();
        Some(Ok(message))
    }

    /// The bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

fn is_compressed([compression, ..]: [u8; PREFIX]) -> bool {
    compression != 0
}

/// The length of the message after a prefix.
fn announced([_, length @ ..]: [u8; PREFIX]) -> usize {
    usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn messages_survive_chunks_of_any_size(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8),
            size in 1_usize..80,
        ) {
            let body: Vec<_> = sent.iter().flat_map(|message| frame(message)).collect();
            let (mut reader, mut read) = (Messages::new(50), Vec::new());
            for chunk in body.chunks(size) {
                reader.push(chunk).unwrap();
                prop_assert!(reader.held_bytes() <= size + PREFIX + 50);
                while let Some(message) = reader.pop() {
                    read.push(message.unwrap());
                }
            }
            prop_assert_eq!(read, sent);
        }
    }

    #[test]
    fn huge_message_is_rejected_at_its_prefix() {
        let mut reader = Messages::new(4);
        let chunk = [&frame(b"four")[..], &[0, 255, 255, 255, 255]].concat();
        reader.push(&chunk).unwrap();
        assert_eq!(reader.pop(), Some(Ok(b"four".to_vec())));
        assert_eq!(reader.pop(), None);
        assert_eq!(reader.push(b"x"), Err(InvalidFrame::TooLong { limit: 4 }));
    }

    #[test]
    fn compressed_message_is_rejected() {
        let mut reader = Messages::new(4);
        reader.push(&[1, 0, 0, 0, 0]).unwrap();
        assert_eq!(reader.pop(), Some(Err(InvalidFrame::Compressed)));
    }
}
