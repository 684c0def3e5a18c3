//! The reason of requests beyond the message limit, which tonic rejects while it decodes.

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use http::HeaderMap;
use tonic::Code;

use super::status;

/// Gives rejections of requests beyond this many bytes a reason.
pub(super) fn layer(router: Router, limit: usize) -> Router {
    router.route_layer(from_fn_with_state(limit, explain))
}

async fn explain(State(limit): State<usize>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if is_transports(response.headers()) { status::too_large(limit).into_http() } else { response }
}

/// Whether a status is one of tonic's own: ours have details.
fn is_transports(headers: &HeaderMap) -> bool {
    let code = headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()));
    code == Some(Code::OutOfRange) && !headers.contains_key("grpc-status-details-bin")
}
