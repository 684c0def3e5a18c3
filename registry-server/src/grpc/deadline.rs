//! Deadlines: the caller's `grpc-timeout`, limited by the server's timeout, ends as `DEADLINE_EXCEEDED`.
//!
//! Tonic enforces the header too, but answers `CANCELLED`; this layer is a moment faster. It also
//! measures requests, because it sees all of them. A timeout does not undo a write: a retry with the same
//! request id returns its result. Streams have no timeout of the server: only the deadlines of their
//! callers apply.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use http::HeaderMap;
use tokio::time::{Instant, timeout_at};

use super::status;
use crate::{access, metrics};

/// The layer responds this much earlier than tonic's own timeout.
const HEAD_START: Duration = Duration::from_millis(4);

/// When the caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(pub(super) Instant);

/// Whether the handler may have started a write.
#[derive(Debug, Clone, Default)]
struct Writing(Arc<AtomicBool>);

/// Marks the request as a write: from here on, its outcome is unknown if the deadline passes.
pub(super) fn begin_write<T>(request: &tonic::Request<T>) {
    if let Some(Writing(writing)) = request.extensions().get() {
        writing.store(true, Ordering::Relaxed);
    }
}

pub(super) fn layer(router: Router, longest: Duration) -> Router {
    router.route_layer(from_fn_with_state(longest, enforce))
}

async fn enforce(State(longest): State<Duration>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = access::known_path(request.uri().path()).unwrap_or("other");
    let wanted = read(request.headers());
    if let Some(wanted) = wanted {
        request.extensions_mut().insert(Deadline(began + wanted));
    }
    let writing = Writing::default();
    request.extensions_mut().insert(writing.clone());
    let allowed = wanted.map_or(longest, |wanted| wanted.saturating_sub(HEAD_START).min(longest));
    let response = match timeout_at(began + allowed, next.run(request)).await {
        Ok(response) => response,
        Err(_) if writing.0.load(Ordering::Relaxed) => {
            status::write_deadline_exceeded(allowed).into_http()
        }
        Err(_) => status::deadline_exceeded(allowed).into_http(),
    };
    metrics::requested(method, began.elapsed());
    response
}

/// The one method that is a stream.
pub(super) const SYNC: &str = "/registry.v1.SyncService/Sync";

/// Reads `grpc-timeout`: at most eight digits and a unit.
fn read(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_hours(number)),
        "M" => Some(Duration::from_mins(number)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn only_a_write_may_still_be_stored() {
        let reading = || pending::<()>();
        let writing = |request: Request| {
            begin_write(&tonic::Request::from_http(request));
            pending::<()>()
        };
        let router = Router::new().route("/read", get(reading)).route("/write", get(writing));
        let router = layer(router, Duration::from_millis(20));
        for (path, may_be_stored) in [("/read", false), ("/write", true)] {
            let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.headers()["grpc-status"], "4");
            let message = answer.headers()["grpc-message"].to_str().unwrap();
            assert_eq!(message.contains("committed"), may_be_stored, "{path}: {message}");
        }
    }

    #[test]
    fn reads_what_the_protocol_allows() {
        let read = |value: &'static str| {
            read(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), value.parse().unwrap())]))
        };
        assert_eq!(read("300m"), Some(Duration::from_millis(300)));
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(read("99999999H"), Some(Duration::from_hours(99_999_999)));
        for bad in ["", "S", "1", "1s", "-1S", "123456789S", "1.5S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
