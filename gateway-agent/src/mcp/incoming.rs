//! One request with its parameters and metadata taken apart, each member once.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use gateway_policy::Buffered;
use gateway_protocol::{
    jsonrpc::{Id, Member, Object, Request},
    mcp::{Era, Param, header},
    trace_context::TraceContext,
};
use http::{HeaderMap, HeaderName, request::Parts};
use registry_core::entity::tool::is_reserved_meta_key;
use serde_json::value::RawValue;

use super::{Rejection, era::LEGACY};
use crate::{identity::ClientInfo, pipeline::mirror};

/// The header that repeats the method.
/// The key of the protocol version in `_meta`.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the client's capabilities in `_meta`.
pub(super) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// How the names of headers begin that repeat arguments.
const PARAM_PREFIX: &str = "mcp-param-";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// A request as it arrived.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub(super) parts: &'a Parts,
    body: &'a Bytes,
    pub(super) bytes: usize,
    pub(super) id: Id<'a>,
    pub(super) method: &'a str,
    params: Object<'a>,
    meta: Object<'a>,
}

impl<'a> Incoming<'a> {
    pub(super) fn read(
        parts: &'a Parts,
        body: &'a Bytes,
        request: &'a Request<'a>,
    ) -> Result<Self, Rejection> {
        let params = request.params.map(Object::parse).transpose()?.unwrap_or_default();
        let meta = params.find("_meta").map(Object::parse).transpose()?.unwrap_or_default();
        let (bytes, id, method) = (body.len(), request.id, &*request.method);
        Ok(Self { parts, body, bytes, id, method, params, meta })
    }

    /// The body of the request, which the returned handle shares.
    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// Reserves memory for an answer that is not a result of an upstream.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), Rejection> {
        let buffered = self.parts.extensions.get::<Arc<Buffered>>();
        let reserved = buffered.map_or(Ok(()), |buffered| buffered.grow(bytes));
        reserved.map_err(Rejection::Buffers)
    }

    pub(super) fn headers(&self) -> &'a HeaderMap {
        &self.parts.headers
    }

    /// The headers that repeat arguments; most requests have none.
    pub(super) fn param_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let is_param = |name: &HeaderName| name.as_str().starts_with(PARAM_PREFIX);
        for (name, value) in self.headers().iter().filter(|(name, _)| is_param(name)) {
            headers.append(name, value.clone());
        }
        headers
    }

    /// The era whose rules apply: the version header decides, then the session id, and only then
    /// `Mcp-Method` and other signs of the stateless era, because proxies add `Mcp-Method` to
    /// requests of sessions. A stateless version in `_meta` goes first: its checks compare it with
    /// the header.
    pub(super) fn era(&self) -> Era {
        let (headers, claimed) = (self.headers(), self.meta_text(META_VERSION));
        if claimed.is_some_and(|version| !LEGACY.contains(&&*version)) {
            return Era::Modern;
        }
        if self.method == "initialize" {
            return Era::Legacy;
        }
        match mirror::single(headers, &header::PROTOCOL_VERSION) {
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

    /// Whether the version header names this version.
    pub(super) fn names_version(&self, version: &str) -> bool {
        self.headers().get(header::PROTOCOL_VERSION).is_some_and(|named| named == version)
    }

    /// A parameter, raw.
    pub(super) fn param(&self, name: &str) -> Option<&'a RawValue> {
        self.params.find(name)
    }

    /// A parameter that is a string.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.param(name)?)
    }

    /// A member of `_meta`, raw.
    pub(super) fn meta(&self, name: &str) -> Option<&'a RawValue> {
        self.meta.find(name)
    }

    /// A member of `_meta` that is a string.
    pub(super) fn meta_text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.meta(name)?)
    }

    /// What a modern client says that it is.
    pub(super) fn client(&self) -> Option<Arc<ClientInfo>> {
        ClientInfo::read(self.meta(META_CLIENT)?).map(Arc::new)
    }

    /// Whose trace the request belongs to.
    pub(super) fn trace(&self) -> TraceContext {
        let member = |name| {
            let header = self.headers().get(name).and_then(|value| value.to_str().ok());
            self.meta_text(name).as_deref().or(header).map(Into::into)
        };
        TraceContext {
            parent: member("traceparent"),
            state: member("tracestate"),
            baggage: member("baggage"),
        }
    }

    /// All parameters but `_meta` and these.
    pub(super) fn other_params(&self, known: &[&str]) -> Vec<Param> {
        let is_other = |name: &str| name != "_meta" && !known.contains(&name);
        copied(self.params.members(), is_other)
    }

    /// What of `_meta` belongs neither to the protocol nor to this gateway.
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

/// A string; without escapes it is not copied.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}
