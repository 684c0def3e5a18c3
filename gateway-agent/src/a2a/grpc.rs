//! The gRPC binding of A2A 1.0, on the port of the other bindings.
//!
//! Each request has one message, so that calls enter and are served like other requests. Paths of
//! gRPC have no place for an agent: requests name it in `tenant` or in their metadata.

use std::convert::Infallible;

use a2a::{Dialect, ErrorKind, Failure, Version, grpc, version::VERSION_HEADER};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::StreamBody;

use super::{
    A2a,
    address::Address,
    answer::{AnswerForm, Step, reject},
    enter,
    failure::Refusal,
    read::content_type,
    serve,
};
use crate::audit;

/// The path of all methods.
pub(super) fn path() -> String {
    format!("/{}/{{method}}", grpc::SERVICE)
}

/// Serves a call of any method.
pub(super) async fn receive(State(a2a): State<A2a>, request: Request) -> Response {
    let form = AnswerForm::new(Dialect::grpc());
    let path = request.uri().path().to_owned();
    let method = path.rsplit('/').next().unwrap_or_default();
    let entered = match enter(&a2a, request).await {
        Ok(entered) => entered,
        Err(error) => return reject(&form, error.as_str(), &error.into()),
    };
    if !grpc::accepts_media_type(content_type(&entered.parts)) {
        audit::count_rejection("content-type");
        let mut response = Response::new(Body::empty());
        // The sender does not speak gRPC, and could not read a status in trailers.
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    if let Err(failure) = check_version(&entered.parts.headers) {
        return reject(&form, "unsupported-version", &failure.into());
    }
    let complete = match entered.read(&a2a.gateway).await {
        Ok(complete) => complete,
        Err(error) => return reject(&form, error.as_str(), &error.into()),
    };
    let address = Address { agent: None, rest: method };
    Box::pin(serve(&a2a, complete, address, (Dialect::grpc(), &Method::POST))).await
}

/// The name of the service contains the version, so that calls may omit it.
fn check_version(headers: &HeaderMap) -> Result<(), Failure> {
    if !headers.contains_key(VERSION_HEADER) || Version::of_request(headers, None)? == Version::V1 {
        return Ok(());
    }
    let message = "gRPC is served in A2A 1.0 only; send a2a-version: 1.0";
    Err(Failure::new(ErrorKind::VersionNotSupported, message))
}

/// A successful response with one message.
pub(super) fn unary(message: Bytes) -> Response {
    let frames = [Frame::data(message), Frame::trailers(grpc::success())];
    respond(Body::new(StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)))))
}

/// A response with the messages of a stream.
pub(super) fn stream(steps: impl Stream<Item = Step> + Send + 'static) -> Response {
    let frames = stream::unfold(Some(Box::pin(steps)), async |open| {
        let mut steps = open?;
        let (frame, open) = match steps.next().await {
            Some(Step::Events(messages)) => (Frame::data(messages), Some(steps)),
            Some(Step::Failed(refusal)) => (trailers(&refusal), None),
            // Without an error, the task would seem to have ended.
            Some(Step::Stopping) => (trailers(&Refusal::stopping()), None),
            None => (Frame::trailers(grpc::success()), None),
        };
        Some((Ok::<_, Infallible>(frame), open))
    });
    respond(Body::new(StreamBody::new(frames)))
}

fn trailers(refusal: &Refusal) -> Frame<Bytes> {
    Frame::trailers(grpc::write_failure(&refusal.failure))
}

/// A response without a message. Its headers are also its trailers.
pub(super) fn refused(Refusal { failure, headers, .. }: &Refusal) -> Response {
    let mut response = respond(Body::empty());
    response.headers_mut().extend(headers.clone());
    response.headers_mut().extend(grpc::write_failure(failure));
    response
}

/// The HTTP status of each response is 200. The status of the call is in its trailers.
fn respond(body: Body) -> Response {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static(grpc::MEDIA_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}
