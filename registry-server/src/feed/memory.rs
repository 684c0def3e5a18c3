//! Writes the state of this server's followers to the database, in batches and outside of the streams.
//!
//! The writes resume after an outage of the database. A heartbeat every [`BEAT`] keeps the followers of this
//! server connected in the database (`pulse.rs`), and compares the stored followers with the actual ones.

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

use super::{Feed, pulse::before, roster::State};
use crate::store::{self, Beat, KnownGateway};

/// How often a server says that it lives.
const BEAT: Duration = Duration::from_secs(15);
/// Rows a statement.
const ROWS: usize = 500;
/// How long to wait after a write that failed.
const RETRY: Duration = Duration::from_secs(2);
/// Most followers that are remembered after they are gone.
const REMEMBERED: usize = 50_000;

/// The task that keeps the database up to date.
pub struct Memory {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Memory {
    /// Starts to remember who follows.
    pub fn start(feed: Arc<Feed>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep(feed, stop.clone()));
        Self { task, stop }
    }

    /// Notes who has left by now, and ends; at the latest after this time.
    pub async fn finish(mut self, within: Duration) {
        self.stop.cancel();
        if timeout(within, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the followers of this server were not noted as gone; they expire");
        }
    }
}

async fn keep(feed: Arc<Feed>, stop: CancellationToken) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let done = tokio::select! {
            () = stop.cancelled() => break,
            _ = beats.tick() => {
                let done = beat(&feed).await;
                if done.is_err() {
                    beats.reset_after(RETRY);
                }
                // It may have cut a gathering short.
                done.and(write(&feed).await)
            }
            () = feed.roster.changes().gathered() => write(&feed).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "what is known of followers was not noted; it will be");
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(RETRY) => {}
            }
        }
    }
    if let Err(error) = write(&feed).await {
        tracing::warn!(%error, "the followers of this server were not noted as gone; they expire");
    }
}

/// Notes everybody of whom there is something new.
async fn write(feed: &Feed) -> Result<(), store::Error> {
    let taken = feed.roster.changes().take();
    if taken.is_empty() {
        return Ok(());
    }
    let written = write_rows(feed, &rows(feed, &taken)).await;
    if written.is_err() {
        for state in &taken {
            feed.roster.changes().came_or_left(state);
        }
    }
    feed.roster.changes().told();
    written
}

async fn write_rows(feed: &Feed, rows: &[KnownGateway]) -> Result<(), store::Error> {
    for chunk in rows.chunks(ROWS) {
        feed.store.note_gateways(chunk).await?;
    }
    Ok(())
}

/// A row for each name and principal, in their order, so that servers that write the same rows do
/// not wait for each other in a circle. Of several streams the one that is there counts, and of
/// those the last that came.
fn rows(feed: &Feed, taken: &[Arc<State>]) -> Vec<KnownGateway> {
    let now = feed.clock.now();
    let followers = feed.roster.followers();
    let mut rows = BTreeMap::new();
    for state in taken {
        let key = state.key();
        let state = followers.get(&key).unwrap_or(state);
        rows.insert(key, feed.roster.known(state, now));
    }
    rows.into_values().collect()
}

/// Says that this server lives, and makes up for what was missed.
async fn beat(feed: &Feed) -> Result<(), store::Error> {
    let now = feed.clock.now();
    let beat = Beat {
        server: feed.roster.server().to_owned(),
        now,
        alive_since: feed.pulse.alive_since(),
        remember_since: before(now, feed.config.gateway_retention),
        most: REMEMBERED,
    };
    feed.store.beat(&beat).await?;
    feed.pulse.beat(now);
    let noted: HashSet<_> = feed.store.followers_of(&beat.server).await?.into_iter().collect();
    let followers = feed.roster.followers();
    for (key, state) in &followers {
        if !noted.contains(key) {
            feed.roster.changes().came_or_left(state);
        }
    }
    for (gateway, principal) in noted.iter().filter(|key| !followers.contains_key(*key)) {
        feed.store.note_gone(&beat.server, (gateway, principal), now).await?;
    }
    Ok(())
}
