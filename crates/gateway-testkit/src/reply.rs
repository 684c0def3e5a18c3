//! Replies, as bytes.

use std::{fmt, time::Duration};

use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use serde_json::Value;

const EVENTS: &str =
    "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The bytes of a reply, and the fate of its connection.
pub enum Reply {
    /// Writes these pieces one by one.
    Keep(Vec<Vec<u8>>),
    /// Writes these pieces as they arrive.
    Stream(BoxStream<'static, Vec<u8>>),
    /// Writes these bytes and closes the connection.
    Close(Vec<u8>),
    /// Writes these bytes, then zeros without end.
    Flood(Vec<u8>),
    /// Writes these bytes, then nothing until the client closes the connection.
    Hang(Vec<u8>),
    /// Resets the connection.
    Reset,
    /// Replies after a delay.
    Late(Duration, Box<Reply>),
}

impl Reply {
    /// Never replies.
    pub fn stall() -> Self {
        Self::Hang(Vec::new())
    }

    /// Streams these messages as server-sent events.
    pub fn events(messages: impl Stream<Item = Value> + Send + 'static) -> Self {
        let head = futures_util::stream::iter([EVENTS.as_bytes().to_vec()]);
        let events = messages.map(|message| chunk(format!("data: {message}\n\n").as_bytes()));
        let end = futures_util::stream::iter([b"0\r\n\r\n".to_vec()]);
        Self::Stream(head.chain(events).chain(end).boxed())
    }

    /// The same reply with one more header. Only a complete reply has a place for it.
    pub fn with_header(self, name: &str, value: &str) -> Self {
        let Self::Keep(pieces) = self else { panic!("{self:?} has no head") };
        let text = String::from_utf8(pieces.concat()).unwrap();
        let text = text.replacen("\r\n", &format!("\r\n{name}: {value}\r\n"), 1);
        Self::Keep(vec![text.into_bytes()])
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep(_) => "Keep",
            Self::Stream(_) => "Stream",
            Self::Close(_) => "Close",
            Self::Flood(_) => "Flood",
            Self::Hang(_) => "Hang",
            Self::Reset => "Reset",
            Self::Late(..) => "Late",
        })
    }
}

/// A reply with a JSON body.
pub fn json_reply(status: u16, body: &Value) -> Reply {
    raw_reply(status, "application/json", body.to_string().as_bytes())
}

/// A reply without a body.
pub fn empty(status: u16) -> Reply {
    raw_reply(status, "text/plain", b"")
}

/// A reply with these bytes as its body.
pub fn raw_reply(status: u16, media_type: &str, body: &[u8]) -> Reply {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    Reply::Keep(vec![[head.as_bytes(), body].concat()])
}

/// The same reply after a delay.
pub fn late(after: Duration, reply: Reply) -> Reply {
    Reply::Late(after, Box::new(reply))
}

/// An event stream in these pieces.
pub fn sse_reply<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Reply {
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).map(chunk);
    let ends = [vec![EVENTS.as_bytes().to_vec()], pieces.collect(), vec![b"0\r\n\r\n".to_vec()]];
    Reply::Keep(ends.into_iter().flatten().collect())
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}
