//! Recognizes servers that support only the HTTP+SSE transport of 2024-11-05.
//!
//! Such a server rejects a POST of `initialize` and opens an event stream for a GET; the first
//! event is `endpoint` (MCP 2025-11-25, basic/transports, backwards compatibility). The gateway
//! does not support this transport, so the error names it.

use std::time::Duration;

use http::HeaderMap;

use super::{Subject, Transport, answer};

/// Maximum wait for the first event.
const WAIT: Duration = Duration::from_secs(2);
/// Maximum bytes before the first event.
const BYTES: usize = 4_096;

/// Whether the first event of a GET is `endpoint`.
pub(super) async fn is_spoken(
    transport: &Transport,
    headers: &HeaderMap,
    subject: &Subject,
) -> bool {
    let is_endpoint = async {
        let response =
            transport.send(transport.address.get(headers.clone()), subject).await.ok()?;
        let is_stream =
            response.status().is_success() && answer::is_event_stream(response.headers());
        let mut body = response.into_body();
        let mut received = Vec::new();
        while is_stream && received.len() < BYTES {
            received.extend_from_slice(&answer::next_chunk(&mut body).await.ok()??);
            if let Some(name) = first_event(&received) {
                return Some(name == b"endpoint");
            }
        }
        None
    };
    tokio::time::timeout(WAIT, is_endpoint).await.ok().flatten().unwrap_or(false)
}

/// The name of the first event, if its line is complete.
fn first_event(received: &[u8]) -> Option<&[u8]> {
    let end = received.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'))?;
    let mut lines = received[..end].split(|byte| matches!(byte, b'\n' | b'\r'));
    Some(lines.find_map(|line| line.strip_prefix(b"event:"))?.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_read_once_its_line_is_complete() {
        for (received, name) in [
            (&b"event: endpoint\ndata: /messages?id=1\n\n"[..], Some(&b"endpoint"[..])),
            (b"event:endpoint\r\n", Some(b"endpoint")),
            (b": hello\n\nevent: message\n", Some(b"message")),
            (b"event: endpo", None),
            (b"data: {}\n\n", None),
            (b"", None),
        ] {
            assert_eq!(first_event(received), name, "{received:?}");
        }
    }
}
