//! Clients of protocol versions before 2026-07-28: `initialize`, a session id on all further
//! requests, and an event stream by `GET`. A plain `POST` of `tools/list` or `tools/call` needs no
//! session.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use gateway_protocol::{
    jsonrpc::{self, Notification, ObjectWriter},
    mcp::{Capabilities, Era, LOG_LEVELS, header},
};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    AuthenticatedRequest, Endpoint, Rejection, call, capabilities, era,
    feature::{self, Feature},
    incoming::Incoming,
    list, media, refuse,
    requester::Requester,
    session::{Session, SessionClaims},
    stream, tasks,
};
use crate::{
    identity::{ClientInfo, sender::RequestHead},
    ingress::{authentication, check_origin},
    mcp::render::{self, http::SizedResponse, result::SERVER_INFO},
    pipeline::mcp_headers::Mismatch,
};

pub(crate) const LAST_EVENT_HEADER: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
) -> Result<SizedResponse, Rejection> {
    if incoming.method == "initialize" {
        return initialize(endpoint, incoming);
    }
    if media::is_plain(incoming.headers()) && matches!(incoming.method, "tools/list" | "tools/call")
    {
        return without_session(endpoint, incoming).await;
    }
    let version = era::of_header(incoming.headers())?;
    let session = session_of(endpoint, incoming.parts)?;
    let requester = Requester {
        era: Era::Legacy,
        caller: authentication(incoming.parts).into_owned().with_client(session.client()),
        session: Some(session.clone()),
        takes_tasks: era::has_tasks(version),
    };
    let running = session.begin(incoming.id.as_raw())?;
    match incoming.method {
        "ping" => Ok(render::result::raw(incoming.id, "{}")),
        "tools/list" => {
            let listed = list::serve(endpoint, incoming, &requester)?;
            session.listed(listed.fingerprint);
            Ok(listed.answer)
        }
        "tools/call" => call::serve(endpoint, incoming, (requester, Some(running))).await,
        "logging/setLevel" => set_level(incoming, &session),
        method => match Feature::from_method(method)
            .filter(|feature| feature.is_served(Era::Legacy))
        {
            Some(feature) => {
                feature::serve(endpoint, incoming, (requester, feature, Some(running))).await
            }
            None => Err(Rejection::UnknownMethod { method: method.to_owned(), era: Era::Legacy }),
        },
    }
}

/// Serves a request without MCP headers, for instance of a script. The response is JSON, without
/// messages or questions before it.
async fn without_session(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
) -> Result<SizedResponse, Rejection> {
    let caller = authentication(incoming.parts).into_owned();
    let requester = Requester { era: Era::Legacy, caller, session: None, takes_tasks: false };
    match incoming.method {
        "tools/list" => Ok(list::serve(endpoint, incoming, &requester)?.answer),
        _ => call::serve(endpoint, incoming, (requester, None)).await,
    }
}

/// Sets the session's log level. Upstreams receive it with the next request.
fn set_level(incoming: &Incoming<'_>, session: &Session) -> Result<SizedResponse, Rejection> {
    let level = incoming.param("level").zip(incoming.text("level"));
    let Some((raw, _)) = level.filter(|(_, level)| LOG_LEVELS.contains(&&**level)) else {
        return Err(Rejection::Params { what: "params.level must be a severity of RFC 5424" });
    };
    session.set_log_level(raw);
    Ok(render::result::raw(incoming.id, "{}"))
}

fn initialize(endpoint: &Endpoint, incoming: &Incoming<'_>) -> Result<SizedResponse, Rejection> {
    // Clients send this header only after initialization, but a wrong one is rejected.
    for method in incoming.headers().get_all(header::METHOD) {
        if method != "initialize" {
            return Err(Mismatch::Different { header: header::METHOD }.into());
        }
    }
    let Some(offered) = incoming.text("protocolVersion") else {
        return Err(Rejection::Params { what: "params.protocolVersion must be a string" });
    };
    let client = incoming.param("clientInfo").and_then(ClientInfo::read).map(Arc::new);
    let caller = authentication(incoming.parts).into_owned().with_client(client.clone());
    let claim = (*caller.claim).clone();
    let claims = SessionClaims::new(claim, client, client_capabilities(incoming)?);
    let id = endpoint.state.sessions.open(&claims)?;
    let version = era::negotiated(&offered);
    let takes_tasks = era::has_tasks(Some(version));
    let requester = Requester { era: Era::Legacy, caller, session: None, takes_tasks };
    let available = capabilities::available_features(endpoint, &requester);
    let mut result = ObjectWriter::with_capacity(256);
    result
        .string("protocolVersion", version)
        .raw("capabilities", &available.capabilities(Era::Legacy))
        .raw("serverInfo", SERVER_INFO);
    if let Some(instructions) = available.instructions() {
        result.string("instructions", &instructions);
    }
    let mut answer = render::result::raw(incoming.id, &result.finish_string());
    let id = HeaderValue::try_from(id).map_err(|_| Rejection::NoRandomness)?;
    answer.headers_mut().insert(header::SESSION_ID, id);
    Ok(answer)
}

/// Maximum size of client capabilities, in bytes; the session id contains them.
const CAPABILITIES_BYTES: usize = 2 * 1024;

fn client_capabilities(incoming: &Incoming<'_>) -> Result<Capabilities, Rejection> {
    let Some(raw) = incoming.param("capabilities") else { return Ok(Capabilities::default()) };
    if !raw.get().starts_with('{') || raw.get().len() > CAPABILITIES_BYTES {
        return Err(Rejection::Params {
            what: "params.capabilities must be an object of at most 2 KiB",
        });
    }
    // The gateway does not forward tasks to clients, so upstreams must not request any.
    Ok(Capabilities::from(raw).without_capability("tasks"))
}

/// Handles the client's response to a question.
pub(super) fn receive_response(
    endpoint: &Endpoint,
    parts: &RequestHead,
    response: jsonrpc::Response<'_>,
) -> Result<SizedResponse, Rejection> {
    let claim = Arc::clone(&authentication(parts).claim);
    let session = session_of(endpoint, parts)?;
    let answered = match response.outcome {
        jsonrpc::ResponsePayload::Result(raw) => {
            Ok(tasks::with_own_task(endpoint, &claim, raw).unwrap_or_else(|| raw.to_owned()))
        }
        jsonrpc::ResponsePayload::Error(error) => Err(error.into()),
    };
    if let Some(id) = response.id {
        session.answer(id.as_raw(), answered);
    }
    Ok(render::http::accepted())
}

pub(super) fn receive_notification(
    endpoint: &Endpoint,
    parts: &RequestHead,
    notification: &Notification<'_>,
) -> Result<SizedResponse, Rejection> {
    let session = session_of(endpoint, parts)?;
    match &*notification.method {
        "notifications/cancelled" => cancel(&session, notification.params),
        // Upstreams that requested the roots of this client can request them again.
        "notifications/roots/list_changed" => {
            endpoint.gateway.upstreams().notify_session(session.id(), &notification.method);
        }
        _ => {}
    }
    Ok(render::http::accepted())
}

fn cancel(session: &Session, params: Option<&RawValue>) {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(rename = "requestId", borrow)]
        request_id: &'a RawValue,
    }
    // An invalid or late cancellation is ignored.
    if let Some(cancelled) = params.and_then(jsonrpc::read_object::<Cancelled<'_>>) {
        session.cancel(cancelled.request_id.get());
    }
}

/// `GET`: the session's event stream, or the rest of a request's stream.
pub(super) async fn listen(
    AuthenticatedRequest { endpoint, parts }: AuthenticatedRequest,
) -> Response {
    let checked = check(&endpoint, &parts).and_then(|session| {
        media::check_stream(&parts.headers)?;
        match parts.headers.get(LAST_EVENT_HEADER) {
            Some(event) => stream::resumed(&endpoint, &session, event),
            None => stream::of_session(&endpoint, &session, authentication(&parts).into_owned()),
        }
    });
    checked.unwrap_or_else(|rejection| refuse(None, &rejection).into_response())
}

/// `DELETE`: ends a session.
pub(super) async fn delete(
    AuthenticatedRequest { endpoint, parts }: AuthenticatedRequest,
) -> Response {
    let closed = check(&endpoint, &parts)
        .and_then(|_| endpoint.state.sessions.close(&parts.headers, &authentication(&parts)));
    match closed {
        Ok(id) => {
            endpoint.state.replays.end_session(&id);
            endpoint.gateway.upstreams().end_session(&id);
            render::http::no_content().into_response()
        }
        Err(rejection) => refuse(None, &rejection).into_response(),
    }
}

fn check(endpoint: &Endpoint, parts: &RequestHead) -> Result<Arc<Session>, Rejection> {
    check_origin(&endpoint.gateway, parts)?;
    era::of_header(&parts.headers)?;
    session_of(endpoint, parts)
}

fn session_of(endpoint: &Endpoint, parts: &RequestHead) -> Result<Arc<Session>, Rejection> {
    endpoint.state.sessions.find(&parts.headers, &authentication(parts))
}
