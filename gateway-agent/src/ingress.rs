//! The entry of HTTP requests, the same for every surface: authentication, the check of origins,
//! bodies within limits, requests of web pages, and event streams.

mod body;
mod cors;
mod error;
pub(crate) mod event_stream;
mod upgrade_slot;

use std::{borrow::Cow, sync::Arc};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use gateway_policy::{BufferReservation, CallerIdentity};
use gateway_protocol::trace_context::{self, Parent, TraceContext};
use gateway_upstream::RequestContext;
use http::{HeaderMap, HeaderName, header::CONTENT_TYPE, request::Parts};
use registry_core::media_type;

pub use self::error::IngressError;
pub(crate) use self::{
    cors::{PageCors, is_of_page, response_to_program},
    error::quota_status,
    upgrade_slot::{HeldConnection, ReceivedBytes, UpgradeSlot},
};
use crate::{
    identity::{
        authenticator::{Authentication, Authenticator, Credentials},
        sender::RequestHead,
    },
    pipeline::{Gateway, GatewayHandle},
};

/// An authenticated request whose body is not read yet. Its headers have no credentials.
pub(crate) struct EnteredRequest {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) parts: RequestHead,
    body: Body,
    credentials: Credentials,
}

/// A request with its whole body, and the memory that the body takes of the caller's quota.
pub(crate) struct CompleteRequest {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) parts: RequestHead,
    pub(crate) body: Bytes,
    pub(crate) buffered: Arc<BufferReservation>,
}

impl EnteredRequest {
    /// Authenticates the sender and removes its credentials.
    pub(crate) async fn authenticate(
        handle: &GatewayHandle,
        request: Request,
    ) -> Result<Self, IngressError> {
        let (parts, body) = request.into_parts();
        Self::enter(handle, parts.into(), body).await
    }

    /// Authenticates the sender of a request whose parts are already separate.
    pub(crate) async fn enter(
        handle: &GatewayHandle,
        mut parts: RequestHead,
        body: Body,
    ) -> Result<Self, IngressError> {
        let gateway = handle.current();
        match gateway.authenticator().authenticate(&parts).await {
            Ok(authentication) => {
                parts.sender.authentication = Some(authentication);
                let credentials = Authenticator::strip(&mut parts.headers);
                Ok(Self { gateway, parts, body, credentials })
            }
            Err(refusal) => {
                body::discard_rejected(body, gateway.settings().request_bytes).await;
                Err(refusal.into())
            }
        }
    }

    /// Reads the body within the limits of size and memory. If the configuration was reloaded
    /// while the body arrived, the new one must accept the request, too.
    pub(crate) async fn read(
        self,
        handle: &GatewayHandle,
    ) -> Result<CompleteRequest, IngressError> {
        let Self { gateway, mut parts, body, credentials } = self;
        let buffered = gateway.open_buffer(&authentication(&parts));
        parts.sender.buffered = Some(Arc::clone(&buffered));
        let body = body::read(body, gateway.settings().request_bytes, &buffered).await?;
        let gateway = renewed(handle, gateway, credentials, &mut parts).await?;
        Ok(CompleteRequest { gateway, parts, body, buffered })
    }
}

/// Reads a body for a caller that did not send it, within the limits of size and memory.
pub(crate) async fn read_body(
    gateway: &Gateway,
    body: Body,
    buffered: &BufferReservation,
) -> Result<Bytes, IngressError> {
    body::read(body, gateway.settings().request_bytes, buffered).await
}

/// Returns the current gateway for a complete request.
async fn renewed(
    handle: &GatewayHandle,
    known: Arc<Gateway>,
    credentials: Credentials,
    parts: &mut RequestHead,
) -> Result<Arc<Gateway>, IngressError> {
    if handle.read(|current| std::ptr::eq(current, Arc::as_ptr(&known))) {
        return Ok(known);
    }
    let now = handle.current();
    check_origin(&now, parts)?;
    credentials.restore(&mut parts.headers);
    let authentication = now.authenticator().authenticate(parts).await;
    Authenticator::strip(&mut parts.headers);
    parts.sender.authentication = Some(authentication?);
    Ok(now)
}

/// Rejects requests of web pages of other sites.
pub(crate) fn check_origin(gateway: &Gateway, parts: &Parts) -> Result<(), IngressError> {
    Ok(gateway.settings().origins.check(parts)?)
}

/// The sender of an authenticated request.
pub(crate) fn authentication(parts: &RequestHead) -> Cow<'_, Authentication> {
    let found = parts.sender.authentication.as_ref();
    let anonymous = || Authentication::without_request(CallerIdentity::Anonymous);
    found.map_or_else(|| Cow::Owned(anonymous()), Cow::Borrowed)
}

/// The context of the sender of a request whose trace is in its headers.
pub(crate) fn request_context(parts: &RequestHead) -> RequestContext {
    let header = |name: HeaderName| parts.headers.get(name)?.to_str().ok();
    let trace = TraceContext {
        parent: header(trace_context::PARENT_NAME).and_then(Parent::parse),
        state: header(trace_context::STATE_NAME).map(Into::into),
        baggage: header(trace_context::BAGGAGE_NAME).map(Into::into),
    };
    let buffered = parts.sender.buffered.clone();
    RequestContext { trace, buffered, ..RequestContext::default() }
}

/// Whether the body of a request is JSON by its media type.
pub(crate) fn sends_json(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    media_type::is_any(media, &["application/json"])
}
