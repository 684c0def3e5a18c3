//! What requests hold while they arrive, all together: each has its own limit, but nothing else
//! limits how many begin and do not end.
//!
//! Messages of streams do not count, because they are small. Decoded writes count in the queue of
//! writes.

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

/// Refuses what would bring the bytes of arriving requests over this many.
pub(super) fn layer(router: Router, most: usize) -> Router {
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    router.route_layer(from_fn_with_state(room, admit))
}

async fn admit(State(room): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    if request.uri().path() == SYNC {
        return next.run(request).await;
    }
    next.run(request.map(|body| counted(body, room))).await
}

/// The body, which holds room for what has come of it until it is dropped.
fn counted(body: Body, room: Arc<Semaphore>) -> Body {
    let mut held: Option<OwnedSemaphorePermit> = None;
    Body::from_stream(body.into_data_stream().map(move |data| {
        let data = data?;
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let place = room.clone().try_acquire_many_owned(bytes);
        let place = place.map_err(|_| status::intake_full())?;
        match &mut held {
            Some(held) => held.merge(place),
            None => held = Some(place),
        }
        Ok::<_, BoxError>(data)
    }))
}
