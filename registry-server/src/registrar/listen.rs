//! Keeps a listener on the database, and wakes the writer when other servers commit.
//!
//! Deliberately absent: what was committed; the writer reads the log. Losing the listener only
//! costs time, because the writer also polls.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Notify, task::JoinHandle, time::sleep};

use crate::{jitter, store::Store};

const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn spawn(store: Store, wake: Arc<Notify>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Ok(mut listener) = store.listener().await {
                // Something may have been committed while nobody listened.
                wake.notify_one();
                while listener.wait().await.is_ok() {
                    wake.notify_one();
                }
            }
            sleep(jitter::around(PAUSE)).await;
        }
    })
}
