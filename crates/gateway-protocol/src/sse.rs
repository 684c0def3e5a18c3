//! Parses server-sent events from chunks of any size, within a size limit.
//!
//! Event names are ignored, because MCP does not use them.

use std::{collections::VecDeque, time::Duration};

/// One event exceeds the size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// A parser of server-sent events.
#[derive(Debug)]
pub struct Events {
    limit_bytes: usize,
    /// The start of a line that is not in one chunk.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_return: bool,
    is_first_line: bool,
    ready: VecDeque<Vec<u8>>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Events {
    /// Creates a parser for events of at most this many bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_return: false,
            is_first_line: true,
            ready: VecDeque::new(),
            last_id: None,
            retry: None,
        }
    }

    /// The bytes of events that were pushed and not popped.
    pub fn held_bytes(&self) -> usize {
        self.line.len() + self.data.len() + self.ready.iter().map(Vec::len).sum::<usize>()
    }

    /// The id of the last event that had one.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The reconnect delay that the sender requests.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Continues with another stream. An incomplete event is discarded.
    pub fn restart(&mut self) {
        let (last_id, retry) = (self.last_id.take(), self.retry);
        *self = Self { last_id, retry, ..Self::new(self.limit_bytes) };
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), TooLong> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_return) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if self.line.len() + self.data.len() + part.len() > self.limit_bytes {
                return Err(TooLong);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_return = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            if self.line.is_empty() {
                self.end_line(part);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.end_line(&line);
            }
        }
        Ok(())
    }

    /// The data of the next complete event. Events without data are skipped.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn end_line(&mut self, mut line: &[u8]) {
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event();
        } else if let Some(value) = line.strip_prefix(b"data") {
            let value = match value {
                [b':', b' ', value @ ..] | [b':', value @ ..] => value,
                [] => &[],
                _ => return, // another field, `database:`
            };
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        } else if let Some(id) = field(line, "id:") {
            if id.contains('\0') {
                self.last_id = None;
            } else {
                id.clone_into(self.last_id.get_or_insert_default());
            }
        } else if let Some(retry) = field(line, "retry:") {
            self.retry = retry.parse().ok().map(Duration::from_millis).or(self.retry);
        }
    }

    fn end_event(&mut self) {
        self.has_data = false;
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            self.ready.push_back(data);
        }
    }
}

/// The value of a field line with this name.
fn field<'a>(line: &'a [u8], name: &str) -> Option<&'a str> {
    let value = std::str::from_utf8(line).ok()?.strip_prefix(name)?;
    Some(value.strip_prefix(' ').unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &[u8] = b"\xef\xbb\xbfdata: one\n\n: comment\r\nid: 5\r\ndata:two\r\ndata\r\n\
        data:  three\r\n\r\nevent: x\rdata: {\"a\":1}\r\rdatabase: no\n\ndata:\n\ndata: unfinished\n";

    fn read(chunks: &[&[u8]]) -> Vec<String> {
        let mut events = Events::new(1000);
        let mut read = Vec::new();
        for chunk in chunks {
            events.push(chunk).unwrap();
            while let Some(data) = events.pop() {
                read.push(String::from_utf8(data).unwrap());
            }
        }
        read
    }

    #[test]
    fn stream_split_at_any_byte_parses_the_same() {
        let whole = read(&[STREAM]);
        assert_eq!(whole, ["one", "two\n\n three", "{\"a\":1}"]);
        for cut in 0..=STREAM.len() {
            assert_eq!(read(&[&STREAM[..cut], &STREAM[cut..]]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    #[test]
    fn size_limit_applies_to_single_events() {
        let mut events = Events::new(10);
        assert_eq!(events.push(b"data: 12345"), Err(TooLong));
        let mut events = Events::new(10);
        events.push(b"data: 12\ndata: 34").unwrap();
        assert_eq!(events.push(b"567\n"), Err(TooLong));
        let mut events = Events::new(10);
        for _ in 0..100 {
            events.push(b"data: 1\n\n").unwrap();
            assert_eq!(events.pop().unwrap(), b"1");
        }
    }

    #[test]
    fn resumed_stream_keeps_last_id() {
        let mut events = Events::new(100);
        events.push(b"retry: 50\nid: a-1\ndata:\n\nid:a-2\ndata: half").unwrap();
        assert_eq!(
            (events.last_id(), events.retry()),
            (Some("a-2"), Some(Duration::from_millis(50)))
        );
        events.restart();
        events.push(b"data: whole\n\n").unwrap();
        assert_eq!((events.pop().unwrap(), events.last_id()), (b"whole".to_vec(), Some("a-2")));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_parse_the_same(
            bytes in prop::collection::vec(prop::sample::select(&b"dat: \r\n{x\xef"[..]), 0..200),
            cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(bytes.len() + 1);
            let lossy = |chunks: &[&[u8]]| {
                let mut events = Events::new(1000);
                for chunk in chunks {
                    events.push(chunk).unwrap();
                }
                std::iter::from_fn(|| events.pop()).collect::<Vec<_>>()
            };
            prop_assert_eq!(lossy(&[&bytes]), lossy(&[&bytes[..cut], &bytes[cut..]]));
        }
    }
}
