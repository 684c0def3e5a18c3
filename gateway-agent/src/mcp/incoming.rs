//! A parsed request: its parameters, metadata and headers.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use gateway_policy::BufferReservation;
use gateway_protocol::{
    jsonrpc::{Id, Member, Object, Request},
    mcp::{Era, Param, header},
    trace_context::{self, Parent, TraceContext},
};
use http::{HeaderMap, HeaderName};
use registry_core::entity::tool::is_reserved_meta_key;
use serde_json::value::RawValue;

use super::{Rejection, era::LEGACY};
use crate::{
    identity::{ClientInfo, sender::RequestHead},
    ingress::IngressError,
    pipeline::mcp_headers,
};

/// The key of the protocol version in `_meta`.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the client's capabilities in `_meta`.
pub(super) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The prefix of headers that mirror arguments.
const PARAM_PREFIX: &str = "mcp-param-";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub(super) parts: &'a RequestHead,
    body: &'a Bytes,
    pub(super) bytes: usize,
    pub(super) id: Id<'a>,
    pub(super) method: &'a str,
    params: Object<'a>,
    meta: Object<'a>,
}

impl<'a> Incoming<'a> {
    pub(super) fn read(
        parts: &'a RequestHead,
        body: &'a Bytes,
        request: &'a Request<'a>,
    ) -> Result<Self, Rejection> {
        let params = request.params.map(Object::parse).transpose()?.unwrap_or_default();
        let meta = params.find("_meta").map(Object::parse).transpose()?.unwrap_or_default();
        let (bytes, id, method) = (body.len(), request.id, &*request.method);
        Ok(Self { parts, body, bytes, id, method, params, meta })
    }

    /// The body, shared without a copy.
    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// Reserves memory for a response that is not a result of an upstream.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), Rejection> {
        let reserved = self.buffered().map_or(Ok(()), |buffered| buffered.reserve(bytes));
        reserved.map_err(|full| IngressError::Buffers(full).into())
    }

    /// The memory of the request.
    pub(super) fn buffered(&self) -> Option<&'a Arc<BufferReservation>> {
        self.parts.sender.buffered.as_ref()
    }

    pub(super) fn headers(&self) -> &'a HeaderMap {
        &self.parts.headers
    }

    pub(super) fn param_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let is_param = |name: &HeaderName| name.as_str().starts_with(PARAM_PREFIX);
        for (name, value) in self.headers().iter().filter(|(name, _)| is_param(name)) {
            headers.append(name, value.clone());
        }
        headers
    }

    /// The protocol era. The version header decides, then the session id. `Mcp-Method` and other
    /// signs of the stateless era come last, because proxies add `Mcp-Method` to requests of
    /// sessions. A stateless version in `_meta` precedes all: its checks compare it with the
    /// header.
    pub(super) fn era(&self) -> Era {
        let (headers, claimed) = (self.headers(), self.meta_text(META_VERSION));
        if claimed.is_some_and(|version| !LEGACY.contains(&&*version)) {
            return Era::Modern;
        }
        if self.method == "initialize" {
            return Era::Legacy;
        }
        match mcp_headers::single(headers, &header::PROTOCOL_VERSION) {
            Ok(Some(version)) if LEGACY.contains(&version) => return Era::Legacy,
            Ok(Some(_)) | Err(_) => return Era::Modern,
            Ok(None) if headers.contains_key(&header::SESSION_ID) => return Era::Legacy,
            Ok(None) => {}
        }
        let is_modern = headers.contains_key(&header::METHOD)
            || self.meta.find(META_CAPABILITIES).is_some()
            || matches!(self.method, "server/discover" | "subscriptions/listen");
        if is_modern { Era::Modern } else { Era::Legacy }
    }

    pub(super) fn names_version(&self, version: &str) -> bool {
        self.headers().get(header::PROTOCOL_VERSION).is_some_and(|named| named == version)
    }

    pub(super) fn param(&self, name: &str) -> Option<&'a RawValue> {
        self.params.find(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.param(name)?)
    }

    pub(super) fn meta(&self, name: &str) -> Option<&'a RawValue> {
        self.meta.find(name)
    }

    pub(super) fn meta_text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.meta(name)?)
    }

    /// The self-description of a stateless client.
    pub(super) fn client(&self) -> Option<Arc<ClientInfo>> {
        ClientInfo::read(self.meta(META_CLIENT)?).map(Arc::new)
    }

    /// The trace context from `_meta` or the headers.
    pub(super) fn trace(&self) -> TraceContext {
        let member = |name: HeaderName| -> Option<Cow<'a, str>> {
            let header = || Some(Cow::Borrowed(self.headers().get(&name)?.to_str().ok()?));
            self.meta_text(name.as_str()).or_else(header)
        };
        TraceContext {
            parent: member(trace_context::PARENT_NAME).as_deref().and_then(Parent::parse),
            state: member(trace_context::STATE_NAME).map(Into::into),
            baggage: member(trace_context::BAGGAGE_NAME).map(Into::into),
        }
    }

    /// All parameters except `_meta` and `known`.
    pub(super) fn other_params(&self, known: &[&str]) -> Vec<Param> {
        let is_other = |name: &str| name != "_meta" && !known.contains(&name);
        copied(self.params.members(), is_other)
    }

    /// The members of `_meta` that neither the protocol nor this gateway defines.
    pub(super) fn other_meta(&self) -> Vec<Param> {
        const KNOWN: [&str; 4] = ["progressToken", "traceparent", "tracestate", "baggage"];
        copied(self.meta.members(), |name| !KNOWN.contains(&name) && !is_reserved_meta_key(name))
    }
}

fn copied(members: &[Member<'_>], is_wanted: impl Fn(&str) -> bool) -> Vec<Param> {
    let wanted = members.iter().filter(|member| is_wanted(&member.name));
    wanted
        .map(|member| Param { name: (*member.name).into(), value: member.value.to_owned() })
        .collect()
}

/// Reads a string, without a copy if it has no escapes.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}
