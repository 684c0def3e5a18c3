//! Authentication and authorization of every request whose path has a route.

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
    access::{Access, Denied, Shown, needs},
    cors, grpc,
    peer::Peer,
};

pub(crate) fn layer(router: Router, access: Arc<Access>) -> Router {
    router.route_layer(from_fn_with_state(access, pass))
}

async fn pass(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    let need = needs::of(request.method(), request.uri().path(), access.is_mcp_public);
    let peer = request.extensions().get::<Peer>();
    let shown = Shown {
        headers: request.headers(),
        certificate: peer.and_then(|peer| peer.certificate.as_deref().map(|der| &**der)),
        address: peer.and_then(|peer| peer.address),
    };
    match access.admit(need, &shown).await {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(Arc::new(principal));
            }
            next.run(request).await
        }
        Err(denied) => {
            note(&denied, &shown, request.uri().path());
            refuse(&denied, &request)
        }
    }
}

/// A call that shows nothing is no news; one that shows something wrong may be an attack.
fn note(denied: &Denied, shown: &Shown<'_>, path: &str) {
    let address = shown.address.map(|address| address.to_string()).unwrap_or_default();
    match denied {
        Denied::Missing | Denied::Limited(_) | Denied::Failing(_) | Denied::NoRule => {
            tracing::debug!(target: "audit", event = "denied", path, address, reason = %denied);
        }
        Denied::Invalid(why) => {
            tracing::info!(target: "audit", event = "denied", path, address, reason = why);
        }
        Denied::Forbidden { .. } | Denied::Unverifiable => {
            tracing::info!(target: "audit", event = "denied", path, address, reason = %denied);
        }
    }
}

fn refuse(denied: &Denied, request: &Request) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return grpc::denied(denied).into_http();
    }
    let code = match denied {
        Denied::Missing | Denied::Invalid(_) => StatusCode::UNAUTHORIZED,
        Denied::Forbidden { .. } => StatusCode::FORBIDDEN,
        Denied::NoRule => StatusCode::NOT_FOUND,
        Denied::Unverifiable => StatusCode::SERVICE_UNAVAILABLE,
        Denied::Limited(_) | Denied::Failing(_) => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut response = if request.uri().path().starts_with(needs::MCP_REGISTRY) {
        problem(code, denied)
    } else {
        (code, format!("{denied}\n")).into_response()
    };
    let headers = response.headers_mut();
    if code == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Denied::Limited(wait) | Denied::Failing(wait) = denied {
        let seconds = wait.as_secs() + 1;
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// As the MCP registry API says no: in both forms that its clients read, also to web pages.
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
