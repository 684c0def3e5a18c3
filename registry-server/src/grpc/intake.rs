//! Limits the memory of incomplete requests. Each request has its own size limit, but only this limit
//! covers many requests that start and never complete.
//!
//! Messages of streams do not count, because they are small. Decoded writes count in the write queue.

use std::sync::Arc;

use axum::{
    BoxError, Router,
    body::Body,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{deadline::SYNC, status};

/// Rejects requests while the incomplete requests together exceed this number of bytes. It is outside of the
/// translation of JSON, so that it counts the bytes of the client.
pub fn layer(router: Router, most: usize) -> Router {
    let memory = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    router.route_layer(from_fn_with_state(memory, admit))
}

async fn admit(State(memory): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    if request.uri().path() == SYNC {
        return next.run(request).await;
    }
    next.run(request.map(|body| counted(body, memory))).await
}

/// A body that reserves memory for its received bytes until it is dropped.
fn counted(body: Body, memory: Arc<Semaphore>) -> Body {
    let mut reserved: Option<OwnedSemaphorePermit> = None;
    Body::from_stream(body.into_data_stream().map(move |data| {
        let data = data?;
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let permit = memory.clone().try_acquire_many_owned(bytes);
        let permit = permit.map_err(|_| status::intake_full())?;
        match &mut reserved {
            Some(reserved) => reserved.merge(permit),
            None => reserved = Some(permit),
        }
        Ok::<_, BoxError>(data)
    }))
}
