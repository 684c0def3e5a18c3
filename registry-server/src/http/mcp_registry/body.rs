//! The bodies of requests: JSON, of bounded size, in bounded time, and only so many at once.
//!
//! Deliberately absent: what they mean.

use std::time::Duration;

use axum::{body::Body, http::StatusCode};
use registry_core::document::parse_json;
use serde_json::Value;
use tokio::{sync::Semaphore, time::timeout};

use super::problem::Problem;

/// Largest body: the largest document has room in it, also where it is indented.
const MOST_BYTES: usize = 1 << 20;
/// How long a body may take to arrive, waiting for its turn included.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bodies that arrive at once.
static TURNS: Semaphore = Semaphore::const_new(256);

/// Reads a body as JSON.
pub(super) async fn json(body: Body) -> Result<Value, Problem> {
    let reading = async {
        // The semaphore is never closed.
        let _turn = TURNS.acquire().await;
        axum::body::to_bytes(body, MOST_BYTES).await
    };
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    let bytes = timeout(PATIENCE, reading).await.map_err(late)?.map_err(|_| {
        let why = format!("the body cannot be read, or has more than {MOST_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    })?;
    parse_json(&bytes).map_err(|error| Problem::bad_request(format!("the body is {error}")))
}
