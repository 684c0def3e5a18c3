//! Answers in the version and binding of their request.

use std::{
    future::ready,
    sync::{Arc, OnceLock},
};

use a2a::{
    Binding, Dialect, Failure, Operation, Untranslatable, Version,
    extensions::{EXTENSIONS_HEADER, Extensions},
    rest, rpc,
    stream::{self, StreamEvent, Template},
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use gateway_protocol::jsonrpc::Id;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use serde_json::Value;

use super::{failure::Refusal, grpc};
use crate::{audit, ingress::event_stream};

/// A step of the stream of a client.
pub(super) enum Step {
    /// One event or several.
    Events(Bytes),
    /// The error that ends the stream.
    Failed(Box<Refusal>),
    /// The gateway stops. The client can subscribe again.
    Stopping,
}

/// The extensions of an answer.
#[derive(Debug, Clone)]
pub(super) struct AnswerExtensions {
    /// The requested ones that the agent declares.
    pub(super) declared: Extensions,
    /// Those that the agent activates. Unset: none.
    pub(super) activated: Arc<OnceLock<Extensions>>,
}

impl AnswerExtensions {
    fn header_value(&self) -> Option<HeaderValue> {
        self.activated.get()?.only(self.declared.iter()).header_value()
    }
}

/// How the answers to a request are written.
#[derive(Debug, Clone)]
pub(super) struct AnswerForm {
    dialect: Dialect,
    /// The id of the JSON-RPC request. `None`: unknown, or another binding.
    id: Option<Box<str>>,
    extensions: Option<AnswerExtensions>,
}

impl AnswerForm {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, id: None, extensions: None }
    }

    pub(super) fn with_id(self, id: Option<Id<'_>>) -> Self {
        Self { id: id.map(|id| id.as_raw().into()), ..self }
    }

    pub(super) fn with_extensions(self, extensions: Option<AnswerExtensions>) -> Self {
        Self { extensions, ..self }
    }

    pub(super) fn version(&self) -> Version {
        self.dialect.version
    }

    fn is_rpc(&self) -> bool {
        self.dialect.binding == Binding::JsonRpc
    }

    fn is_grpc(&self) -> bool {
        self.dialect.binding == Binding::Grpc
    }

    fn id(&self) -> Option<Id<'_>> {
        self.id.as_deref().and_then(|id| Id::parse(id).ok())
    }

    /// A successful answer and its size.
    pub(super) fn result(&self, operation: Operation, answer: Value) -> (Response, usize) {
        let written = match (self.dialect.binding, self.id()) {
            (Binding::JsonRpc, Some(id)) => {
                rpc::write_answer(self.version(), id, operation, answer)
                    .map_err(Untranslatable::into_answer_failure)
            }
            (Binding::Grpc, _) => a2a::grpc::write_answer(operation, &answer),
            _ => rest::write_answer(self.version(), operation, answer)
                .map(|answer| Bytes::from(answer.body))
                .map_err(Untranslatable::into_answer_failure),
        };
        match written {
            Ok(body) => {
                let bytes = body.len();
                let mut response = if self.is_grpc() {
                    grpc::unary(body)
                } else {
                    respond(StatusCode::OK, self.dialect.media_type(), body)
                };
                self.add_extensions(&mut response);
                (response, bytes)
            }
            Err(failure) => (self.refusal(&failure.into()), 0),
        }
    }

    /// An error. JSON-RPC has status 200 for the errors of A2A and of JSON-RPC; errors of the
    /// gateway have their own status in both JSON bindings.
    pub(super) fn refusal(&self, refusal: &Refusal) -> Response {
        let Refusal { failure, status, headers } = refusal;
        // Messages can repeat texts of callers and agents.
        tracing::debug!(reason = failure.reason(), "A2A request failed");
        if self.is_grpc() {
            return grpc::refused(refusal);
        }
        let has_own_status = !self.is_rpc() || failure.kind.is_own();
        let usual = if has_own_status { failure.kind.http_status() } else { 200 };
        let status = status.map_or(usual, |status| status.as_u16());
        let body = if self.is_rpc() {
            rpc::write_failure(self.id(), failure)
        } else {
            rest::write_failure(self.version(), failure, status).body.into()
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = respond(status, "application/json", body);
        response.headers_mut().extend(headers.clone());
        response
    }

    /// Appends an event of a stream. After an error, nothing is appended.
    pub(super) fn write_event(&self, out: &mut Vec<u8>, event: Value) -> Result<(), Failure> {
        if self.is_grpc() {
            // The operations that stream have events of the same type.
            let event = a2a::grpc::write_answer(Operation::SubscribeToTask, &event)?;
            out.extend_from_slice(&event);
            return Ok(());
        }
        let written = stream::write_event(out, self.version(), self.id(), event);
        written.map_err(Untranslatable::into_answer_failure)
    }

    /// Whether [`EventForm::write`] takes repetitions: 1.0 as JSON has the internal form.
    pub(super) fn takes_repeats(&self) -> bool {
        self.dialect.version == Version::V1 && !self.is_grpc()
    }

    /// The response to an operation that streams.
    pub(super) fn stream(&self, steps: impl Stream<Item = Step> + Send + 'static) -> Response {
        let mut response = if self.is_grpc() {
            grpc::stream(steps)
        } else {
            event_stream::respond(steps.scan(self.clone(), |form, step| {
                ready(match step {
                    Step::Events(events) => Some(events),
                    Step::Failed(refusal) => Some(form.last_event(&refusal.failure)),
                    Step::Stopping => None,
                })
            }))
        };
        self.add_extensions(&mut response);
        response
    }

    /// Adds `A2A-Extensions` after the response of the agent has begun.
    fn add_extensions(&self, response: &mut Response) {
        if let Some(value) = self.extensions.as_ref().and_then(AnswerExtensions::header_value) {
            response.headers_mut().insert(EXTENSIONS_HEADER, value);
        }
    }

    /// The error that ends an event stream.
    fn last_event(&self, failure: &Failure) -> Bytes {
        stream::write_failure(self.version(), self.id(), failure)
    }
}

/// Writes the events of one stream.
pub(super) struct EventForm {
    form: AnswerForm,
    /// The event that the next one can repeat.
    template: Option<Template>,
}

impl EventForm {
    pub(super) fn new(form: AnswerForm) -> Self {
        Self { form, template: None }
    }

    /// Appends an event. After an error, nothing is appended.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, event: StreamEvent) -> Result<(), Failure> {
        match event {
            StreamEvent::Whole(event) => {
                self.template = None;
                self.form.write_event(out, event)
            }
            StreamEvent::Template(event) => {
                let start = out.len();
                self.form.write_event(out, event)?;
                self.template = stream::template(&out[start..], self.form.id());
                Ok(())
            }
            StreamEvent::Repeat(repeat) => {
                let template = self.template.as_ref();
                let template =
                    template.ok_or_else(|| Failure::invalid_answer("an event repeats no other"))?;
                stream::write_repeat(out, template, repeat.text());
                Ok(())
            }
        }
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
