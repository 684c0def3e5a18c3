//! Keeps a listener on the database, and wakes the writer when other servers commit.
//!
//! Deliberately absent: what was committed; the writer reads the log. Losing the listener only
//! costs time, because the writer also polls.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Notify, task::JoinHandle, time::sleep};

use crate::{
    jitter, metrics,
    store::{Listener, Store, Wake},
};

const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn spawn(store: Store, wake: Arc<Notify>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Ok(listener) = store.listener().await {
                // Something may have been committed while nobody listened.
                wake.notify_one();
                listen(listener, &wake).await;
            }
            sleep(jitter::around(PAUSE)).await;
        }
    })
}

/// Passes on what wakes, until the database cannot be reached.
async fn listen(mut listener: Listener, wake: &Notify) {
    while let Ok(why) = listener.wait().await {
        if let Wake::Lost(loss) = why {
            metrics::listener_lost(loss.as_str());
            tracing::warn!(
                how = loss.as_str(),
                "the connection that listens for other servers' commits is lost; until there is another one, they are found by polling"
            );
        }
        wake.notify_one();
    }
}
