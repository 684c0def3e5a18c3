//! Protection against DNS rebinding: a page of another site must not read a server on the user's own
//! machine through a host name of that site.
//!
//! A list of allowed host names is not supported: only a proxy in front of the server knows its public
//! names.

use std::net::IpAddr;

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header::HOST, uri::Authority};

use crate::peer::Peer;

/// Requires a loopback host name in requests over the loopback interface.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    match rejection(&request) {
        Some(reason) => (StatusCode::FORBIDDEN, format!("{reason}\n")).into_response(),
        None => next.run(request).await,
    }
}

/// Reason to reject a request, if any.
pub(crate) fn rejection(request: &Request) -> Option<&'static str> {
    let peer = request.extensions().get::<Peer>();
    let is_local = peer.and_then(|peer| peer.local).is_some_and(|a| a.ip().is_loopback());
    let is_foreign = is_local && !host(request).is_some_and(|host| is_loopback_name(&host));
    is_foreign.then_some(
        "invalid Host header: use localhost or a loopback address over the loopback interface",
    )
}

/// Requested host: `:authority` of HTTP/2, else `Host`.
fn host(request: &Request) -> Option<String> {
    let authority = match request.uri().authority() {
        Some(authority) => authority.clone(),
        None => request.headers().get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?,
    };
    Some(authority.host().to_owned())
}

fn is_loopback_name(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback_name;

    #[test]
    fn only_loopback_names_are_accepted() {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "[::1]"] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]"] {
            assert!(!is_loopback_name(name), "{name}");
        }
    }
}
