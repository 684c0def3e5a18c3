//! Clients of the revisions before 2026-07-28: `initialize`, a session id on everything after it,
//! and an event stream by `GET` for `notifications/tools/list_changed`.
//!
//! Deliberately absent: resuming event streams, and requests to the client; the gateway has none.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, request::Parts};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Endpoint, Rejection, call, era, guard,
    incoming::{Incoming, METHOD_HEADER},
    list, refuse,
    session::{SESSION_HEADER, Session},
    stream,
};
use crate::{
    identity::ClientInfo,
    jsonrpc::{self, Notification, ObjectWriter},
    pipeline::mirror::Mismatch,
    respond::{self, http::Answer, result::SERVER_INFO},
    upstream::Era,
};

/// Serves one request.
pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
) -> Result<Answer, Rejection> {
    if incoming.method == "initialize" {
        return initialize(endpoint, incoming);
    }
    era::of_header(incoming.headers())?;
    let claim = endpoint.claim(incoming.parts);
    let session = endpoint.sessions.find(incoming.headers(), &claim)?;
    let who = call::Who { era: Era::Legacy, claim: session.claim(), client: session.client() };
    match incoming.method {
        "ping" => Ok(respond::result::raw(incoming.id, "{}")),
        "tools/list" => {
            let listed = list::serve(endpoint, incoming, &who)?;
            session.listed(listed.fingerprint);
            Ok(listed.answer)
        }
        "tools/call" => {
            let running = session.begin(incoming.id.as_raw());
            tokio::select! {
                answer = call::serve(endpoint, incoming, who) => answer,
                () = running.cancelled() => Ok(respond::http::cancelled()),
            }
        }
        other => Err(Rejection::UnknownMethod { method: other.to_owned(), era: Era::Legacy }),
    }
}

fn initialize(endpoint: &Endpoint, incoming: &Incoming<'_>) -> Result<Answer, Rejection> {
    // Clients send this header only once a version is agreed, but one that lies is refused.
    for method in incoming.headers().get_all(METHOD_HEADER) {
        if method != "initialize" {
            return Err(Mismatch::Different { header: METHOD_HEADER }.into());
        }
    }
    let Some(requested) = incoming.text("protocolVersion") else {
        return Err(Rejection::Params { what: "params.protocolVersion must be a string" });
    };
    let client = incoming.param("clientInfo").and_then(ClientInfo::read);
    let id = endpoint.sessions.open(endpoint.claim(incoming.parts), client.map(Arc::new))?;
    let mut result = ObjectWriter::with_capacity(256);
    result
        .string("protocolVersion", era::negotiated(&requested))
        .raw("capabilities", r#"{"tools":{"listChanged":true}}"#)
        .raw("serverInfo", SERVER_INFO);
    let mut answer = respond::result::raw(incoming.id, &result.finish_string());
    let id = HeaderValue::try_from(id).map_err(|_| Rejection::NoRandomness)?;
    answer.response.headers_mut().insert(SESSION_HEADER, id);
    Ok(answer)
}

/// Takes a notification.
pub(super) fn notified(
    endpoint: &Endpoint,
    parts: &Parts,
    notification: &Notification<'_>,
) -> Result<Answer, Rejection> {
    let session = endpoint.sessions.find(&parts.headers, &endpoint.claim(parts))?;
    if notification.method == "notifications/cancelled" {
        cancel(&session, notification.params);
    }
    Ok(respond::http::accepted())
}

fn cancel(session: &Session, params: Option<&RawValue>) {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(rename = "requestId", borrow)]
        request_id: &'a RawValue,
    }
    // A cancellation that cannot be read is ignored, as one that comes too late is.
    if let Some(cancelled) = params.and_then(jsonrpc::read_object::<Cancelled<'_>>) {
        session.cancel(cancelled.request_id.get());
    }
}

/// `GET`: the session's event stream.
pub(super) async fn listen(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let checked = check(&endpoint, &parts).and_then(|session| {
        guard::check_stream(&parts.headers)?;
        stream::of_session(&endpoint, &session)
    });
    checked.unwrap_or_else(|rejection| refuse(None, &rejection).into_response())
}

/// `DELETE`: the end of a session.
pub(super) async fn delete(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let closed = check(&endpoint, &parts)
        .and_then(|_| endpoint.sessions.close(&parts.headers, &endpoint.claim(&parts)));
    match closed {
        Ok(()) => respond::http::no_content().into_response(),
        Err(rejection) => refuse(None, &rejection).into_response(),
    }
}

fn check(endpoint: &Endpoint, parts: &Parts) -> Result<Arc<Session>, Rejection> {
    guard::check_source(parts, endpoint.gateway.reach())?;
    era::of_header(&parts.headers)?;
    endpoint.sessions.find(&parts.headers, &endpoint.claim(parts))
}
