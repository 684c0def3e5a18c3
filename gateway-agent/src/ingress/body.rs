//! Reads the body of a request within limits.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use gateway_policy::BufferReservation;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use super::IngressError;

/// Maximum size of a discarded body, as a multiple of the request limit.
const LINGER: usize = 4;
/// Maximum time of discarding if memory is exhausted.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Reads a body of at most `limit_bytes`.
pub(super) async fn read(
    body: Body,
    limit_bytes: usize,
    buffered: &BufferReservation,
) -> Result<Bytes, IngressError> {
    if body.size_hint().lower() > limit_bytes as u64 {
        discard_rejected(body, limit_bytes).await;
        return Err(IngressError::TooLarge { limit_bytes });
    }
    let (error, rest) = match read_whole(body, limit_bytes, buffered).await {
        Ok(whole) => return Ok(whole),
        Err(failed) => failed,
    };
    if let IngressError::Buffers(_) = error {
        let _ = timeout(LINGER_TIME, discard_rejected(rest, limit_bytes)).await;
    }
    Err(error)
}

/// Reads a body and reserves memory for each chunk. On failure, also returns the unread rest.
async fn read_whole(
    mut body: Body,
    limit_bytes: usize,
    buffered: &BufferReservation,
) -> Result<Bytes, (IngressError, Body)> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err((IngressError::Incomplete, body)) };
        let Ok(chunk) = frame.into_data() else { continue };
        if whole.len() + chunk.len() > limit_bytes {
            return Err((IngressError::TooLarge { limit_bytes }, body));
        }
        if let Err(full) = buffered.reserve(chunk.len()) {
            return Err((IngressError::Buffers(full), body));
        }
        if whole.is_empty() {
            // Most requests are one chunk, which needs no copy.
            if body.is_end_stream() {
                return Ok(chunk);
            }
            let announced = usize::try_from(body.size_hint().lower()).unwrap_or_default();
            whole.reserve_exact(chunk.len() + announced.min(limit_bytes));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// Reads the rest of a rejected body within a multiple of the request limit: a client that is still
/// writing would see a reset connection instead of the response.
pub(super) async fn discard_rejected(body: Body, limit_bytes: usize) {
    let most_bytes = LINGER * limit_bytes;
    if body.size_hint().lower() > most_bytes as u64 {
        return;
    }
    let mut rest = Limited::new(body, most_bytes);
    while let Some(Ok(_)) = rest.frame().await {}
}
