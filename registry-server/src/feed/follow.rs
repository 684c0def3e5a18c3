//! One follower's stream: says what comes next until something ends it.
//!
//! Deliberately absent: queues. The only state is the position; what comes next is looked up when
//! the follower has taken what came before.

use std::{sync::Arc, time::Duration};

use registry_core::{ChainHash, Revision, SealedCommit};
use registry_proto::convert::Position;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{Error, Feed, Message, outbox::Outbox, recent::Next, roster::Seat, start::Start};
use crate::{jitter, metrics};

/// How many commits are read from the log at once.
const PAGE: usize = 64;
/// How long the log may take before a snapshot from memory is sent instead.
const LOG_PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Following {
    feed: Arc<Feed>,
    seat: Arc<Seat>,
    head: watch::Receiver<Revision>,
    outbox: Outbox,
    /// What the follower has been told; `None` until it was told something.
    place: Option<(Revision, ChainHash)>,
}

impl Following {
    pub(super) fn new(feed: Arc<Feed>, seat: Arc<Seat>, start: Start, outbox: Outbox) -> Self {
        let place = match start {
            Start::Snapshot => None,
            Start::After(revision, chain) => Some((revision, chain)),
        };
        if let Some((revision, _)) = place {
            seat.resumed(revision);
        }
        let head = feed.hub.watch();
        Self { feed, seat, head, outbox, place }
    }

    /// Runs until the follower goes, or is cut off, or the server drains.
    pub(super) async fn run(mut self) -> Error {
        match self.tell_all().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn tell_all(&mut self) -> Result<std::convert::Infallible, Error> {
        self.catch_up().await?;
        self.tell_progress().await?;
        loop {
            let interval = jitter::around(self.feed.config.progress_interval);
            tokio::select! {
                changed = self.head.changed() => {
                    changed.map_err(|_| Error::Draining)?;
                    self.catch_up().await?;
                }
                () = sleep(interval) => self.tell_progress().await?,
                () = self.feed.draining.cancelled() => return Err(Error::Draining),
                () = self.outbox.closed() => return Err(Error::Gone),
            }
        }
    }

    /// Says everything up to the head.
    async fn catch_up(&mut self) -> Result<(), Error> {
        loop {
            self.head.borrow_and_update();
            let Some((revision, chain)) = self.place else {
                self.tell_snapshot().await?;
                continue;
            };
            match self.feed.hub.after(revision) {
                Next::Commit(commit) => self.tell_commit(commit).await?,
                Next::Nothing => return Ok(()),
                Next::Older => self.tell_from_log((revision, chain)).await?,
            }
        }
    }

    /// Says a page of commits that are no longer in memory, or a snapshot where the log cannot be
    /// read or has run too far ahead.
    async fn tell_from_log(&mut self, place: (Revision, ChainHash)) -> Result<(), Error> {
        let gap = self.head.borrow().0.saturating_sub(place.0.0);
        let page = if gap > self.feed.config.snapshot_gap {
            Vec::new()
        } else {
            let reading = async {
                let _turn = self.feed.log_readers.acquire().await;
                self.feed.store.commits_after(place, PAGE).await
            };
            match timeout(LOG_PATIENCE, reading).await {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => give_up_on_log(&error.to_string()),
                Err(_) => give_up_on_log("it takes too long"),
            }
        };
        if page.is_empty() {
            self.place = None;
        }
        for commit in page {
            self.tell_commit(Arc::new(commit)).await?;
        }
        Ok(())
    }

    async fn tell_commit(&mut self, commit: Arc<SealedCommit>) -> Result<(), Error> {
        let place = (commit.revision(), commit.chain());
        self.seat.sent(place.0);
        self.tell(Message::Delta(commit)).await?;
        self.place = Some(place);
        Ok(())
    }

    async fn tell_snapshot(&mut self) -> Result<(), Error> {
        metrics::snapshot();
        let snapshot = self.feed.hub.snapshot().await;
        let (position, entities) = (snapshot.position(), snapshot.catalog().len());
        let place = (position.revision, position.chain);
        let settings = snapshot.catalog().settings().len();
        self.tell(Message::SnapshotBegin { position, entities, settings }).await?;
        let mut last = None;
        loop {
            let chunk = snapshot.chunk(last.as_ref());
            let Some(end) = chunk.last() else { break };
            last = Some(end.document.key().clone());
            self.tell(Message::SnapshotChunk(chunk)).await?;
        }
        let mut last = None;
        loop {
            let settings = snapshot.settings(last.as_ref());
            let Some((end, _)) = settings.last() else { break };
            last = Some(end.clone());
            self.tell(Message::SnapshotSettings(settings)).await?;
        }
        self.seat.sent(place.0);
        self.tell(Message::SnapshotEnd(snapshot.digest())).await?;
        self.place = Some(place);
        Ok(())
    }

    async fn tell_progress(&mut self) -> Result<(), Error> {
        let Some((revision, chain)) = self.place else { return Ok(()) };
        let registry = self.feed.store.registry().clone();
        self.tell(Message::Progress(Position { registry, revision, chain })).await
    }

    /// Waits until the follower takes the message, but not for ever.
    async fn tell(&self, message: Message) -> Result<(), Error> {
        let limit = self.feed.config.slow_reader_timeout;
        tokio::select! {
            told = timeout(limit, self.outbox.send(message)) => {
                told.unwrap_or(Err(Error::SlowReader { limit }))
            }
            () = self.feed.draining.cancelled() => Err(Error::Draining),
        }
    }
}

fn give_up_on_log<T>(why: &str) -> Vec<T> {
    tracing::warn!("the log cannot be read, so a follower gets a snapshot: {why}");
    Vec::new()
}
