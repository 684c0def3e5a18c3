//! JSON over HTTP: the unary protocol of Connect, gRPC-web, and `/openapi.json`.
//!
//! A request of Connect becomes a gRPC request before it is authenticated, and its response becomes one of Connect
//! last. So access rules, limits, deadlines, metrics and audit are those of gRPC.

mod call;
mod compression;
mod error;
mod messages;
mod openapi;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE},
};
use prost_reflect::{DescriptorError, DescriptorPool};
use tokio::{sync::OnceCell, task::spawn_blocking};
use tonic_web::GrpcWebLayer;

use self::{
    call::{Call, is_streaming},
    messages::{Encoding, Messages},
};
use crate::{
    cors::AllowedOrigins,
    grpc::{self, connect as status},
    http::guard,
};

const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

/// The API for clients that do not use gRPC.
pub(crate) struct Api {
    messages: Messages,
    origins: AllowedOrigins,
    /// The maximum size of a message.
    message_bytes: usize,
    /// The OpenAPI document, once it was requested.
    document: OnceCell<Bytes>,
}

impl Api {
    pub(crate) fn load(
        origins: AllowedOrigins,
        message_bytes: usize,
    ) -> Result<Arc<Self>, DescriptorError> {
        let (messages, document) = (Messages::load()?, OnceCell::new());
        Ok(Arc::new(Self { messages, origins, message_bytes, document }))
    }

    /// Serves gRPC services over gRPC, gRPC-web and Connect.
    pub(crate) fn layer(self: &Arc<Self>, services: Router) -> Router {
        // On the routes only: unknown paths get the response of the server, not one of gRPC-web.
        let services = services.route_layer(GrpcWebLayer::new());
        let services = services.route_layer(from_fn_with_state(self.clone(), translate));
        self.origins.layer(services)
    }

    /// The route of the OpenAPI document.
    pub(crate) fn document(self: &Arc<Self>) -> Router {
        let router = Router::new().route("/openapi.json", get(openapi)).with_state(self.clone());
        router.route_layer(from_fn(guard::guard))
    }
}

/// The protocol of a `POST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Including gRPC-web.
    Grpc,
    Connect(Encoding),
    /// The streaming protocol of Connect, which is not supported.
    ConnectStream,
}

/// The protocol of a content type. No page can send any of them to another origin without a preflight request.
fn protocol(headers: &HeaderMap) -> Option<Protocol> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (kind, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let kind = kind.trim().to_ascii_lowercase();
    let name = kind.strip_prefix("application/")?;
    if let Some(encoding) = Encoding::named(name) {
        let parameters = parameters.replace('"', "");
        let is_utf8 = matches!(&*parameters.trim().to_ascii_lowercase(), "" | "charset=utf-8");
        return is_utf8.then_some(Protocol::Connect(encoding));
    }
    if name.starts_with("connect+") {
        return Some(Protocol::ConnectStream);
    }
    let grpc = name.strip_prefix("grpc")?;
    let grpc =
        grpc.strip_prefix("-web").map_or(grpc, |web| web.strip_prefix("-text").unwrap_or(web));
    (grpc.is_empty() || grpc.starts_with('+')).then_some(Protocol::Grpc)
}

async fn translate(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let protocol = protocol(request.headers());
    if api.origins.reject(request.headers()) {
        let status = status::foreign_origin();
        return match protocol {
            Some(Protocol::Connect(_)) => error::response(&api.messages, &status),
            _ => (StatusCode::FORBIDDEN, format!("{}\n", status.message())).into_response(),
        };
    }
    let encoding = match (request.method(), protocol) {
        (_, Some(Protocol::Grpc)) => {
            // The layer of gRPC-web rejects gRPC over HTTP/1.1.
            *request.version_mut() = Version::HTTP_2;
            return next.run(request).await;
        }
        (&Method::GET, _) => None,
        (&Method::POST, Some(Protocol::Connect(encoding))) => Some(encoding),
        (&Method::POST, Some(Protocol::ConnectStream)) => {
            let status = status::streaming_method(request.uri().path());
            let kind = request.headers()[CONTENT_TYPE].clone();
            return error::end_of_stream(&api.messages, &status, kind);
        }
        (&Method::POST, None) => return unsupported_media_type(),
        _ => return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST, GET")]).into_response(),
    };
    let Some(method) = api.messages.method(request.uri().path()) else {
        let mut response = error::response(&api.messages, &grpc::unimplemented());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    if is_streaming(method) {
        return error::response(&api.messages, &status::streaming_method(request.uri().path()));
    }
    let call = match encoding {
        Some(encoding) => Call::of_post(method, encoding, &request),
        None => Call::of_get(method, &request),
    };
    let (call, request) = match call.and_then(|call| call.request(request, api.message_bytes)) {
        Ok(call) => call,
        Err(status) => return error::response(&api.messages, &status),
    };
    let response = next.run(request).await;
    match call.response(response).await {
        Ok(response) => response,
        Err(status) => error::response(&api.messages, &status),
    }
}

fn unsupported_media_type() -> Response {
    let kinds = "application/json, application/proto, application/grpc, application/grpc-web";
    let why = format!("send one of these content types: {kinds}\n");
    let accepted = [(ACCEPT_POST, HeaderValue::from_static(kinds))];
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, accepted, why).into_response()
}

async fn openapi(State(api): State<Arc<Api>>) -> impl IntoResponse {
    let document = api.document.get_or_init(|| write_document(api.messages.pool.clone())).await;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from(document.clone()))
}

/// Writes the OpenAPI document outside of the async runtime.
async fn write_document(pool: DescriptorPool) -> Bytes {
    let source = pool.clone();
    let written = spawn_blocking(move || openapi::document(&source)).await;
    // This fails only while the runtime shuts down.
    written.unwrap_or_else(|_| openapi::document(&pool)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_follows_the_content_type() {
        for (kind, expected) in [
            ("application/grpc", Some(Protocol::Grpc)),
            ("application/grpc+proto", Some(Protocol::Grpc)),
            ("application/grpc-web", Some(Protocol::Grpc)),
            ("application/grpc-web+proto", Some(Protocol::Grpc)),
            ("application/grpc-web-text+proto", Some(Protocol::Grpc)),
            ("application/json", Some(Protocol::Connect(Encoding::Json))),
            ("Application/JSON; charset=UTF-8", Some(Protocol::Connect(Encoding::Json))),
            ("application/proto", Some(Protocol::Connect(Encoding::Proto))),
            ("application/connect+json", Some(Protocol::ConnectStream)),
            ("application/json; charset=utf-16", None),
            ("application/grpcx", None),
            ("application/grpc-webx", None),
            ("application/x-www-form-urlencoded", None),
            ("text/plain", None),
            ("text/plain;application/json", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
            assert_eq!(protocol(&headers), expected, "{kind}");
        }
        assert_eq!(protocol(&HeaderMap::new()), None);
    }
}
