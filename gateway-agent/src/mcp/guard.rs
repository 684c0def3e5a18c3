//! What is checked before a body is read: where the request comes from, and what it sends and takes.
//!
//! A web page can make a browser send requests to this machine; its `Origin` gives it away, and a
//! `Host` that is not the gateway's gives DNS rebinding away. Deliberately absent: authentication.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use http::{
    HeaderMap, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN},
    request::Parts,
    uri::Authority,
};

use super::{Rejection, era::VERSION_HEADER, incoming::METHOD_HEADER, session::SESSION_HEADER};
use crate::pipeline::Reach;

/// Refuses web pages of elsewhere.
pub(crate) fn check_source(parts: &Parts, reach: &Reach) -> Result<(), Rejection> {
    for origin in parts.headers.get_all(ORIGIN) {
        if !origin.to_str().is_ok_and(|origin| is_known_origin(origin, &reach.origins)) {
            return Err(Rejection::ForeignOrigin);
        }
    }
    let is_any_host_fine = reach.hosts.is_empty() && !reach.listen.ip().is_loopback();
    if is_any_host_fine || is_known_host(parts, &reach.hosts) {
        return Ok(());
    }
    Err(Rejection::ForeignHost)
}

/// Without a list, pages of this machine are known.
fn is_known_origin(origin: &str, known: &[String]) -> bool {
    if !known.is_empty() {
        return known.iter().any(|known| known.eq_ignore_ascii_case(origin));
    }
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    matches!(origin.scheme_str(), Some("http" | "https")) && origin.host().is_some_and(is_local)
}

fn is_known_host(parts: &Parts, known: &[String]) -> bool {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let authority = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
        // HTTP/2 says it in the request line.
        (None, _) => parts.uri.authority().cloned(),
        (Some(_), Some(_)) => None,
    };
    let is_known = |authority: Authority| {
        let is_named = |name: &String| {
            name.eq_ignore_ascii_case(authority.host())
                || name.eq_ignore_ascii_case(authority.as_str())
        };
        if known.is_empty() { is_local(authority.host()) } else { known.iter().any(is_named) }
    };
    authority.is_some_and(is_known)
}

/// Whether a host name can only mean this machine.
fn is_local(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What nearly all clients send.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

/// Whether a request has no header of MCP, as scripts send them. The answer is JSON.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    ![VERSION_HEADER, SESSION_HEADER, METHOD_HEADER].iter().any(|name| headers.contains_key(name))
}

/// Rejects clients that cannot read the answer, and bodies that are not JSON.
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
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = media.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(Rejection::MediaType)
    }
}

/// Refuses clients that could not read an event stream.
pub(super) fn check_stream(headers: &HeaderMap) -> Result<(), Rejection> {
    if accepts(headers, "text", "event-stream") {
        return Ok(());
    }
    Err(Rejection::NotAcceptable { needed: "text/event-stream" })
}

/// Whether `Accept` covers a media type; a range with `q=0` excludes.
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
