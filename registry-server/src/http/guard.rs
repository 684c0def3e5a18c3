//! Keeps web pages from reading: by DNS rebinding, a page may reach a server on the reader's own
//! machine under the page's own name.
//!
//! A list of allowed host names is not supported: only a proxy in front of the server knows its
//! public names.

use std::net::IpAddr;

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header::HOST, uri::Authority};

use crate::peer::Peer;

/// Who comes over the loopback interface must call the server by a name of this machine.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    match refusal(&request) {
        Some(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
        None => next.run(request).await,
    }
}

/// Why a request is not served, if it is not.
pub(super) fn refusal(request: &Request) -> Option<&'static str> {
    let peer = request.extensions().get::<Peer>();
    let is_local = peer.and_then(|peer| peer.local).is_some_and(|a| a.ip().is_loopback());
    let is_strange = is_local && !host(request).is_some_and(|host| is_this_machine(&host));
    is_strange.then_some("over loopback, Host must be localhost or a loopback address")
}

/// The host that is asked for: `:authority` of HTTP/2, else `Host`.
fn host(request: &Request) -> Option<String> {
    let authority = match request.uri().authority() {
        Some(authority) => authority.clone(),
        None => request.headers().get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?,
    };
    Some(authority.host().to_owned())
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_this_machine;

    #[test]
    fn only_names_of_this_machine_pass() {
        for ours in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "[::1]"] {
            assert!(is_this_machine(ours), "{ours}");
        }
        for other in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]"] {
            assert!(!is_this_machine(other), "{other}");
        }
    }
}
