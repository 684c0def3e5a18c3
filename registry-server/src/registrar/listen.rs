//! Listens for database notifications of other servers' commits and wakes the writer.
//!
//! Without a listener, the writer finds these commits later, by polling.

use std::{sync::Arc, time::Duration};

use retry_backoff::jittered_by;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    feed::Hub,
    metrics,
    store::{Listener, Store, Wake},
};

const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(super) fn spawn(store: Store, hub: Arc<Hub>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Ok(listener) = store.listener().await {
                // Other servers may have committed while no listener was connected.
                hub.request_refresh(None);
                listen(listener, &hub).await;
            }
            sleep(jittered_by(RETRY_DELAY, 0.1)).await;
        }
    })
}

/// Forwards notifications until the connection fails.
async fn listen(mut listener: Listener, hub: &Hub) {
    while let Ok(wake) = listener.wait().await {
        if let Wake::Lost(loss) = wake {
            metrics::listener_lost(loss.as_str());
            tracing::warn!(
                how = loss.as_str(),
                "lost the notification connection to the database; polling for commits until it is restored"
            );
        }
        hub.request_refresh(match wake {
            Wake::Commit(revision) => Some(revision),
            Wake::Lost(_) | Wake::Reconnected => None,
        });
    }
}
