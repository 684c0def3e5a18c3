//! Request bodies: JSON of bounded size, time and concurrency.

use std::time::Duration;

use axum::{body::Body, http::StatusCode};
use futures_util::StreamExt as _;
use registry_core::document::parse_json;
use serde_json::Value;
use tokio::{sync::Semaphore, time::timeout};

use super::problem::Problem;

/// Maximum bytes of a body; the largest document fits, also with indentation.
const MAX_BYTES: usize = 1 << 20;
/// Bytes of a longer body that are read and discarded. Many clients read the response only after sending.
const MAX_DISCARDED_BYTES: usize = 16 << 20;
/// Time to receive a body, including the wait for a permit.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bodies received concurrently.
static PERMITS: Semaphore = Semaphore::const_new(256);

/// Parses a body as JSON.
pub(super) async fn json(body: Body) -> Result<Value, Problem> {
    let reading = async {
        // The semaphore is never closed.
        let _permit = PERMITS.acquire().await;
        read(body).await
    };
    let late =
        |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "timed out receiving the request body");
    let bytes = timeout(TIMEOUT, reading).await.map_err(late)??;
    parse_json(&bytes)
        .map_err(|error| Problem::bad_request(format!("invalid request body: {error}")))
}

/// Reads a whole body. A body that is too long is rejected after it was received.
async fn read(body: Body) -> Result<Vec<u8>, Problem> {
    let (mut parts, mut bytes, mut length) = (body.into_data_stream(), Vec::new(), 0);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| Problem::bad_request("the request body is incomplete"))?;
        length += part.len();
        if length > MAX_DISCARDED_BYTES {
            break;
        }
        if length <= MAX_BYTES {
            bytes.extend_from_slice(&part);
        }
    }
    if length > MAX_BYTES {
        let detail = format!("the request body exceeds {MAX_BYTES} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(bytes)
}
