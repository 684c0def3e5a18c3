//! The admin listener: routes for operators, separate from those of callers.
//!
//! A token is optional on loopback and required elsewhere. Requests of foreign web pages are
//! rejected.

pub(crate) mod approvals;
pub(crate) mod budgets;
pub(crate) mod contracts;
pub(crate) mod graphs;
pub(crate) mod sagas;
pub(crate) mod targets;
pub(crate) mod traces;

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use http::HeaderMap;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::origin::OriginPolicy;

/// Maximum size of a request body, in bytes.
const BODY_BYTES: usize = 4 * 1024;

/// The `admin` and `adminTokenFile` settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// The address.
    pub listen: SocketAddr,
    /// The required bearer token, if any.
    pub token: Option<AdminToken>,
}

/// The token of the admin listener. Its `Debug` form omits the token.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl AdminToken {
    pub(crate) fn new(token: &str) -> Self {
        Self(token.to_owned())
    }

    /// The token itself; never logged.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(..)")
    }
}

/// The checks of a request.
#[derive(Debug)]
struct Guard {
    origins: OriginPolicy,
    /// The SHA-256 of the token: comparisons have constant length, and memory dumps do not reveal
    /// the token.
    token: Option<[u8; 32]>,
}

/// Protects routes by the checks of the admin listener at `listen`.
pub fn guarded(routes: Router, config: &AdminConfig, listen: SocketAddr) -> Router {
    let origins = OriginPolicy { listen, origins: Vec::new(), hosts: Vec::new() };
    let token = config.token.as_ref().map(|token| digest(token.expose().as_bytes()));
    routes
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(from_fn_with_state(Arc::new(Guard { origins, token }), check))
}

/// Why a body is invalid, without the position, because `registryctl` shows no body.
fn invalid_body(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

/// An error response.
pub fn error_response(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if guard.origins.check(&parts).is_err() {
        let message = "the Origin or Host of the request is not allowed; use the address of the admin listener\n";
        return (StatusCode::FORBIDDEN, message).into_response();
    }
    if !guard.token.is_none_or(|token| has_token(&parts.headers, token)) {
        let message = "missing or invalid admin token; send `Authorization: Bearer TOKEN` with the token of `adminTokenFile`\n";
        let asked = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, asked, message).into_response();
    }
    next.run(Request::from_parts(parts, body)).await
}

fn has_token(headers: &HeaderMap, token: [u8; 32]) -> bool {
    let shown = headers.get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let shown = shown.and_then(|shown| shown.split_at_checked("Bearer ".len()));
    shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case(b"Bearer ") && digest(shown).ct_eq(&token).into()
    })
}
