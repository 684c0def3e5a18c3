//! The bodies of requests: JSON, of bounded size, in bounded time, and only so many at once.

use std::time::Duration;

use axum::{body::Body, http::StatusCode};
use futures_util::StreamExt as _;
use registry_core::document::parse_json;
use serde_json::Value;
use tokio::{sync::Semaphore, time::timeout};

use super::problem::Problem;

/// Largest body: the largest document has room in it, also where it is indented.
const MOST_BYTES: usize = 1 << 20;
/// So much of a larger one is read all the same: a client that still sends would not hear the answer.
const MOST_DISCARDED: usize = 16 << 20;
/// How long a body may take to arrive, waiting for its turn included.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bodies that arrive at once.
static TURNS: Semaphore = Semaphore::const_new(256);

/// Reads a body as JSON.
pub(super) async fn json(body: Body) -> Result<Value, Problem> {
    let reading = async {
        // The semaphore is never closed.
        let _turn = TURNS.acquire().await;
        read(body).await
    };
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    let bytes = timeout(PATIENCE, reading).await.map_err(late)??;
    parse_json(&bytes).map_err(|error| Problem::bad_request(format!("the body is {error}")))
}

/// Reads a whole body, or refuses it once it has been sent.
async fn read(body: Body) -> Result<Vec<u8>, Problem> {
    let (mut parts, mut bytes, mut length) = (body.into_data_stream(), Vec::new(), 0);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| Problem::bad_request("the body ended early"))?;
        length += part.len();
        if length > MOST_DISCARDED {
            break;
        }
        if length <= MOST_BYTES {
            bytes.extend_from_slice(&part);
        }
    }
    if length > MOST_BYTES {
        let why = format!("the body has more than {MOST_BYTES} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(bytes)
}
