//! Listens on the database, and wakes the writer when other servers commit.
//!
//! Without a listener other servers' commits appear later, because the writer also polls.

use std::{sync::Arc, time::Duration};

use retry_backoff::jittered_by;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    feed::Hub,
    metrics,
    store::{Listener, Store, Wake},
};

const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn spawn(store: Store, hub: Arc<Hub>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Ok(listener) = store.listener().await {
                // Other servers may have committed while there was no listener.
                hub.request_refresh();
                listen(listener, &hub).await;
            }
            sleep(jittered_by(PAUSE, 0.1)).await;
        }
    })
}

/// Passes on notifications until the database cannot be reached.
async fn listen(mut listener: Listener, hub: &Hub) {
    while let Ok(why) = listener.wait().await {
        if let Wake::Lost(loss) = why {
            metrics::listener_lost(loss.as_str());
            tracing::warn!(
                how = loss.as_str(),
                "the connection that listens for other servers' commits is lost; until there is another one, they are found by polling"
            );
        }
        hub.request_refresh();
    }
}
