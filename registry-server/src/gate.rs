//! Authentication and authorization of every routed request.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};

use crate::{
    access::{Access, Denied, PresentedCredentials, requirements},
    cors, grpc,
    peer::Peer,
};

pub(crate) fn layer(router: Router, access: Arc<Access>) -> Router {
    router.route_layer(from_fn_with_state(access, authorize))
}

async fn authorize(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let requirement =
        requirements::requirement(request.method(), request.uri().path(), access.is_mcp_public);
    let peer = request.extensions().get::<Peer>();
    let credentials = PresentedCredentials {
        headers: request.headers(),
        certificate: peer.and_then(|peer| peer.certificate.as_deref().map(|der| &**der)),
        address: peer.and_then(|peer| peer.address),
    };
    match access.admit(requirement, &credentials).await {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(Arc::new(principal));
            }
            next.run(request).await
        }
        Err(denied) => {
            log(&denied, &credentials, request.uri().path());
            reject(&denied, &request)
        }
    }
}

/// Logs a rejection for auditors. Missing credentials are routine; invalid ones may be an attack.
fn log(denied: &Denied, credentials: &PresentedCredentials<'_>, path: &str) {
    let address = credentials.address.map(|address| address.to_string()).unwrap_or_default();
    match denied {
        Denied::Missing
        | Denied::RateLimited(_)
        | Denied::TooManyFailures(_)
        | Denied::UnknownRoute => {
            tracing::debug!(
                target: "audit", event = "denied", path, address, reason = denied.to_string()
            );
        }
        Denied::Invalid(reason) => {
            tracing::info!(target: "audit", event = "denied", path, address, reason = reason);
        }
        Denied::Forbidden { name, .. } => {
            tracing::info!(
                target: "audit",
                event = "denied",
                principal = name,
                path,
                address,
                reason = denied.to_string()
            );
        }
        Denied::TokensUnavailable => {
            tracing::info!(
                target: "audit", event = "denied", path, address, reason = denied.to_string()
            );
        }
    }
}

fn reject(denied: &Denied, request: &Request) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return grpc::denied(denied).into_http();
    }
    let code = match denied {
        Denied::Missing | Denied::Invalid(_) => StatusCode::UNAUTHORIZED,
        Denied::Forbidden { .. } => StatusCode::FORBIDDEN,
        Denied::UnknownRoute => StatusCode::NOT_FOUND,
        Denied::TokensUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Denied::RateLimited(_) | Denied::TooManyFailures(_) => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut response = if request.uri().path().starts_with(requirements::MCP_REGISTRY) {
        problem(code, denied)
    } else {
        (code, format!("{denied}\n")).into_response()
    };
    let headers = response.headers_mut();
    if code == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Denied::RateLimited(wait) | Denied::TooManyFailures(wait) = denied {
        let seconds = wait.as_secs() + 1;
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Error format of the MCP registry API, with CORS headers for web pages.
fn problem(code: StatusCode, denied: &Denied) -> Response {
    let detail = denied.to_string();
    let title = code.canonical_reason().unwrap_or_default();
    let body = Json(serde_json::json!({
        "title": title,
        "status": code.as_u16(),
        "detail": detail,
        "error": detail,
    }));
    let mut response = (code, [(CONTENT_TYPE, "application/problem+json")], body).into_response();
    cors::allow(response.headers_mut());
    response
}
