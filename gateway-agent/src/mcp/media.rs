//! Content negotiation: the media types that a request sends and accepts.

#[cfg(test)]
mod tests;

use gateway_protocol::mcp::header;
use http::{HeaderMap, header::ACCEPT};

use super::Rejection;
use crate::ingress::sends_json;

/// The `Accept` value of most clients.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

/// Whether a request has no MCP headers, like those of scripts. The response is then JSON.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    ![header::PROTOCOL_VERSION, header::SESSION_ID, header::METHOD]
        .iter()
        .any(|name| headers.contains_key(name))
}

/// Rejects clients that do not accept the response's media types, and bodies that are not JSON.
pub(super) fn check_media(headers: &HeaderMap) -> Result<(), Rejection> {
    let is_usual = headers.get(ACCEPT).is_some_and(|value| value == USUAL_ACCEPT);
    let reads_json = || !headers.contains_key(ACCEPT) || accepts(headers, "application", "json");
    let reads_both =
        || accepts(headers, "application", "json") && accepts(headers, "text", "event-stream");
    if !(is_usual || reads_both() || is_plain(headers) && reads_json()) {
        let needed = if is_plain(headers) {
            "application/json"
        } else {
            "application/json and text/event-stream"
        };
        return Err(Rejection::NotAcceptable { needed });
    }
    if sends_json(headers) { Ok(()) } else { Err(Rejection::MediaType) }
}

/// Rejects clients that do not accept event streams.
pub(super) fn check_stream(headers: &HeaderMap) -> Result<(), Rejection> {
    if accepts(headers, "text", "event-stream") {
        return Ok(());
    }
    Err(Rejection::NotAcceptable { needed: "text/event-stream" })
}

/// Whether `Accept` covers a media type. A range with `q=0` is excluded.
fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let Some((k, s)) = parts.next().and_then(|essence| essence.split_once('/')) else {
            return false;
        };
        let covers = (k == "*" && s == "*")
            || (k.eq_ignore_ascii_case(kind) && (s == "*" || s.eq_ignore_ascii_case(subtype)));
        covers && !parts.any(is_zero_weight)
    })
}

fn is_zero_weight(parameter: &str) -> bool {
    let weight = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
    weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
}
