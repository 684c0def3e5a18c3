//! Lines of bounded length from a stream.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Bytes kept of each end of a line that is too long.
const KEPT_BYTES: usize = 256;

/// Capacity kept for the next line, in bytes.
const SPARE_BYTES: usize = 64 * 1024;

/// A reader of lines.
#[derive(Debug)]
pub struct Lines<R> {
    reader: BufReader<R>,
    limit_bytes: usize,
    line: Vec<u8>,
    tail: Option<Vec<u8>>,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// The ends of a line that exceeds the limit.
    TooLong {
        /// The start.
        head: &'a [u8],
        /// The end.
        tail: &'a [u8],
    },
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a reader of lines of at most this length. Of longer lines only the ends are kept.
    pub fn new(stream: R, limit_bytes: usize) -> Self {
        let reader = BufReader::with_capacity(SPARE_BYTES, stream);
        Self { reader, limit_bytes, line: Vec::new(), tail: None }
    }

    /// The next line. At the end of the stream, the rest counts as a line.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        self.line.shrink_to(SPARE_BYTES);
        self.tail = None;
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!self.line.is_empty()).then(|| self.finished()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            keep(&mut self.line, &mut self.tail, part, self.limit_bytes);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.finished()));
            }
        }
    }

    fn finished(&self) -> Line<'_> {
        match &self.tail {
            None => Line::Whole(self.line.strip_suffix(b"\r").unwrap_or(&self.line)),
            Some(tail) => Line::TooLong { head: &self.line, tail },
        }
    }
}

fn keep(line: &mut Vec<u8>, tail: &mut Option<Vec<u8>>, part: &[u8], limit_bytes: usize) {
    let last = |bytes: &[u8]| bytes[bytes.len().saturating_sub(KEPT_BYTES)..].to_vec();
    if let Some(tail) = tail {
        tail.extend_from_slice(&part[part.len().saturating_sub(KEPT_BYTES)..]);
        *tail = last(tail);
        return;
    }
    line.extend_from_slice(part);
    if line.len() > limit_bytes {
        *tail = Some(last(line));
        line.truncate(KEPT_BYTES);
        line.shrink_to(SPARE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_keep_only_their_ends() {
        let long = format!("<{}>", "x".repeat(100_000));
        let text = format!("one\r\n\n{long}\ntwo\nrest");
        let mut lines = Lines::new(text.as_bytes(), 1000);
        assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(b"one")));
        assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(b"")));
        let Some(Line::TooLong { head, tail }) = lines.next().await.unwrap() else {
            panic!("a long line")
        };
        assert_eq!((head.len(), tail.len()), (KEPT_BYTES, KEPT_BYTES));
        assert!(head.starts_with(b"<xx") && tail.ends_with(b"xx>"));
        assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(b"two")));
        assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(b"rest")));
        assert_eq!(lines.next().await.unwrap(), None);
    }
}
