//! Answers in the version and binding of their request.

use a2a::{
    Binding, Dialect, Failure, Operation, Version, extensions::EXTENSIONS_HEADER, rest, rpc, stream,
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use gateway_protocol::jsonrpc::Id;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use serde_json::Value;

use super::failure::Refusal;
use crate::audit;

/// How the answers to a request are written.
#[derive(Debug, Clone)]
pub(super) struct AnswerForm {
    dialect: Dialect,
    /// The id of the JSON-RPC request. `None`: unknown, or the other binding.
    id: Option<Box<str>>,
    /// The value of `A2A-Extensions`.
    extensions: Option<HeaderValue>,
}

impl AnswerForm {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, id: None, extensions: None }
    }

    pub(super) fn with_id(self, id: Option<Id<'_>>) -> Self {
        Self { id: id.map(|id| id.as_raw().into()), ..self }
    }

    pub(super) fn with_extensions(self, extensions: Option<HeaderValue>) -> Self {
        Self { extensions, ..self }
    }

    pub(super) fn version(&self) -> Version {
        self.dialect.version
    }

    fn is_rpc(&self) -> bool {
        self.dialect.binding == Binding::JsonRpc
    }

    fn id(&self) -> Option<Id<'_>> {
        self.id.as_deref().and_then(|id| Id::parse(id).ok())
    }

    /// A successful answer and its size.
    pub(super) fn result(&self, operation: Operation, answer: Value) -> (Response, usize) {
        let written = match (self.dialect.binding, self.id()) {
            (Binding::JsonRpc, Some(id)) => {
                rpc::write_answer(self.version(), id, operation, answer)
            }
            _ => rest::write_answer(self.version(), operation, answer)
                .map(|answer| Bytes::from(answer.body)),
        };
        match written {
            Ok(body) => {
                let bytes = body.len();
                let mut response = respond(StatusCode::OK, self.dialect.media_type(), body);
                if let Some(extensions) = &self.extensions {
                    response.headers_mut().insert(EXTENSIONS_HEADER, extensions.clone());
                }
                (response, bytes)
            }
            Err(error) => {
                let response = self.refusal(&error.into_answer_failure().into());
                (response, 0)
            }
        }
    }

    /// An error. JSON-RPC has status 200 for the errors of A2A and of JSON-RPC; errors of the
    /// gateway have their own status in both bindings.
    pub(super) fn refusal(&self, refusal: &Refusal) -> Response {
        let Refusal { failure, status, headers } = refusal;
        tracing::debug!(reason = failure.reason(), error = %failure, "A2A request failed");
        let (usual, body) = if self.is_rpc() {
            let usual = if failure.kind.is_own() { failure.kind.http_status() } else { 200 };
            (usual, rpc::write_failure(self.id(), failure))
        } else {
            let answer = rest::write_failure(self.version(), failure);
            (answer.status, Bytes::from(answer.body))
        };
        let usual = StatusCode::from_u16(usual).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = respond(status.unwrap_or(usual), "application/json", body);
        response.headers_mut().extend(headers.clone());
        response
    }

    /// An event of a stream.
    pub(super) fn event(&self, event: Value) -> Result<Bytes, Failure> {
        let event = stream::write_event(self.version(), self.id(), event);
        event.map_err(a2a::Untranslatable::into_answer_failure)
    }

    /// The error that ends a stream.
    pub(super) fn last_event(&self, failure: &Failure) -> Bytes {
        stream::write_failure(self.version(), self.id(), failure)
    }
}

/// Counts a request that was rejected before routing, and answers it.
pub(super) fn reject(form: &AnswerForm, reason: &'static str, refusal: &Refusal) -> Response {
    audit::count_rejection(reason);
    form.refusal(refusal)
}

fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
