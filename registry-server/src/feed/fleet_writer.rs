//! Writes the state of followers to the database, in batches and outside of the streams.
//!
//! Writes resume after an outage of the database. A heartbeat every [`HEARTBEAT_INTERVAL`] marks this server as alive and
//! reconciles the stored followers with the connected ones.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Feed, liveness::before, sessions::FollowerState};
use crate::store::{self, FleetHeartbeat, GatewayRecord};

/// Interval between heartbeats of this server.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Rows in one statement.
const MAX_ROWS: usize = 500;
/// Delay after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Maximum stored followers that are disconnected.
const MAX_DISCONNECTED: usize = 50_000;

/// The task that writes the state of followers.
pub struct FleetWriter {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl FleetWriter {
    /// Starts the task.
    pub fn start(feed: Arc<Feed>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(feed, stop.clone()));
        Self { task, stop }
    }

    /// Stores the final state of the followers and stops, within this time.
    pub async fn finish(mut self, within: Duration) {
        self.stop.cancel();
        if timeout(within, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!(
                "cannot store that the followers of this server have left; their entries expire"
            );
        }
    }
}

async fn run(feed: Arc<Feed>, stop: CancellationToken) {
    let mut heartbeats = interval(HEARTBEAT_INTERVAL);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let done = tokio::select! {
            () = stop.cancelled() => break,
            _ = heartbeats.tick() => {
                let done = heartbeat(&feed).await;
                if done.is_err() {
                    heartbeats.reset_after(RETRY_DELAY);
                }
                // The heartbeat may have interrupted the delay of a batch.
                done.and(write(&feed).await)
            }
            () = feed.sessions.changes().batch_ready() => write(&feed).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "cannot store the state of followers, retrying");
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(RETRY_DELAY) => {}
            }
        }
    }
    if let Err(error) = write(&feed).await {
        tracing::warn!(%error, "cannot store that the followers of this server have left; their entries expire");
    }
}

/// Writes all queued followers.
async fn write(feed: &Feed) -> Result<(), store::Error> {
    let taken = feed.sessions.changes().take();
    if taken.is_empty() {
        return Ok(());
    }
    let written = write_rows(feed, &rows(feed, &taken)).await;
    if written.is_err() {
        for state in &taken {
            feed.sessions.changes().connected_or_left(state);
        }
    }
    feed.sessions.changes().written();
    written
}

async fn write_rows(feed: &Feed, rows: &[GatewayRecord]) -> Result<(), store::Error> {
    for chunk in rows.chunks(MAX_ROWS) {
        feed.store.upsert_gateways(chunk).await?;
    }
    Ok(())
}

/// One row for each name and principal, sorted so that concurrent writes of several servers cannot deadlock.
/// If several streams have the same name, the last connected one counts.
fn rows(feed: &Feed, taken: &[Arc<FollowerState>]) -> Vec<GatewayRecord> {
    let now = feed.clock.now();
    let followers = feed.sessions.followers();
    let mut rows = BTreeMap::new();
    for state in taken {
        let key = state.key();
        let state = followers.get(&key).unwrap_or(state);
        rows.insert(key, feed.sessions.row(state, now));
    }
    rows.into_values().collect()
}

/// Stores a heartbeat of this server and reconciles the stored followers.
async fn heartbeat(feed: &Feed) -> Result<(), store::Error> {
    let now = feed.clock.now();
    let heartbeat = FleetHeartbeat {
        server: feed.sessions.server().to_owned(),
        now,
        alive_since: feed.liveness.alive_since(),
        retain_since: before(now, feed.config.gateway_retention),
        max_disconnected: MAX_DISCONNECTED,
    };
    feed.store.record_heartbeat(&heartbeat).await?;
    feed.liveness.record_heartbeat(now);
    let stored: HashSet<_> =
        feed.store.followers_of(&heartbeat.server).await?.into_iter().collect();
    let followers = feed.sessions.followers();
    for (key, state) in &followers {
        if !stored.contains(key) {
            feed.sessions.changes().connected_or_left(state);
        }
    }
    for (gateway, principal) in stored.iter().filter(|key| !followers.contains_key(*key)) {
        feed.store.mark_disconnected(&heartbeat.server, (gateway, principal), now).await?;
    }
    Ok(())
}
