//! A request of the client: its protocol era, and the headers that mirror its body.

use std::{borrow::Cow, sync::atomic::AtomicBool};

use bytes::Bytes;
use gateway_protocol::{
    jsonrpc::{self, Id, Limits, Message, Notification, Object, ObjectWriter, Request},
    mcp::{
        LEGACY_VERSIONS, MODERN_VERSION,
        header::{METHOD, NAME, PROTOCOL_VERSION, encode},
    },
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::{params::ParamHeaders, running::Kind};
use crate::mcp::META_VERSION;

#[derive(Debug)]
pub(super) struct ClientRequest {
    pub(super) body: Bytes,
    id: Box<str>,
    pub(super) method: Box<str>,
    /// The stateless protocol version in its metadata. `None`: a request of a session.
    version: Option<HeaderValue>,
    /// Whether the client has received the acknowledgment of this `subscriptions/listen`.
    pub(super) acknowledged: AtomicBool,
}

impl ClientRequest {
    pub(super) fn read(body: Bytes, request: &Request<'_>) -> Self {
        let (id, method) = (request.id.as_raw().into(), request.method.as_ref().into());
        let version = stateless_version(&request.method, request.params);
        Self { body, id, method, version, acknowledged: AtomicBool::new(false) }
    }

    pub(super) fn id(&self) -> Id<'_> {
        Id::parse(&self.id).expect("the id was read from a request")
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    pub(super) fn opens_session(&self) -> bool {
        !self.is_modern() && &*self.method == "initialize"
    }

    pub(super) fn kind(&self) -> Kind {
        match &*self.method {
            _ if !self.is_modern() => Kind::Session,
            "subscriptions/listen" => Kind::Subscription,
            _ => Kind::Stateless,
        }
    }

    /// A `tools/list` request with the metadata of this request.
    pub(super) fn list_request(&self, cursor: Option<&str>, limits: Limits) -> Option<Bytes> {
        let Ok(Message::Request(request)) = jsonrpc::parse(&self.body, limits) else { return None };
        let members = Object::parse(request.params?).ok()?;
        let meta = Object::parse(members.find("_meta")?).ok()?;
        let mut own = ObjectWriter::with_capacity(256);
        // The progress token belongs to the call.
        for member in meta.members().iter().filter(|member| member.name.contains('/')) {
            own.member(&member.name, member.value.get());
        }
        let mut params = ObjectWriter::with_capacity(256);
        params.raw("_meta", &own.finish_string());
        if let Some(cursor) = cursor {
            params.string("cursor", cursor);
        }
        let id = Id::parse(r#""bridge""#).ok()?;
        Some(jsonrpc::request(id, "tools/list", &params.finish_string()))
    }

    /// Whether a retry has no further effects.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(
            &*self.method,
            "initialize"
                | "ping"
                | "server/discover"
                | "subscriptions/listen"
                | "tools/list"
                | "prompts/list"
                | "prompts/get"
                | "resources/list"
                | "resources/templates/list"
                | "resources/read"
                | "resources/subscribe"
                | "resources/unsubscribe"
                | "completion/complete"
                | "logging/setLevel"
                | "tasks/get"
                | "tasks/list"
                | "tasks/result"
        )
    }

    /// The headers of a stateless request.
    pub(super) fn headers(&self, params: &ParamHeaders, request: &Request<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some(version) = &self.version else { return headers };
        headers.insert(PROTOCOL_VERSION, version.clone());
        headers.insert(METHOD, encode(&self.method));
        let subject = match &*self.method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return headers,
        };
        let Some(members) = request.params.and_then(|params| Object::parse(params).ok()) else {
            return headers;
        };
        let Some(subject) = members.find(subject).and_then(text) else { return headers };
        headers.insert(NAME, encode(&subject));
        if &*self.method == "tools/call" {
            params.add_to(&mut headers, &subject, members.find("arguments"));
        }
        headers
    }
}

/// The headers of a stateless notification. `None` for a notification of a session.
pub(super) fn stateless_headers(notification: &Notification<'_>) -> Option<HeaderMap> {
    let version = stateless_version(&notification.method, notification.params)?;
    let method = encode(&notification.method);
    let headers: [(HeaderName, _); 2] = [(PROTOCOL_VERSION, version), (METHOD, method)];
    Some(headers.into_iter().collect())
}

fn stateless_version(method: &str, params: Option<&RawValue>) -> Option<HeaderValue> {
    let members = params.and_then(|params| Object::parse(params).ok());
    let meta = members.and_then(|members| members.find("_meta"));
    let meta = meta.and_then(|meta| Object::parse(meta).ok());
    let version = meta.and_then(|meta| meta.find(META_VERSION)).and_then(text);
    let is_stateless = |version: &str| !LEGACY_VERSIONS.contains(&version);
    match version.filter(|version| is_stateless(version)) {
        Some(version) => HeaderValue::from_str(&version).ok(),
        // These methods exist only in the stateless era; the gateway reports the missing metadata.
        None if matches!(method, "server/discover" | "subscriptions/listen") => {
            Some(HeaderValue::from_static(MODERN_VERSION))
        }
        None => None,
    }
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    if !raw.get().starts_with('"') {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}
