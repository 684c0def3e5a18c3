//! Telling one follower something: as fast as it takes it, but not for ever.
//!
//! Deliberately absent: what is told, and when.

use std::sync::Arc;

use registry_core::{ChainHash, Revision};
use registry_proto::convert::Position;
use tokio::time::timeout;

use super::{Error, Feed, Message, outbox::Outbox, roster::Seat, snapshot::Snapshot};
use crate::metrics;

/// One follower's ear.
pub(super) struct Teller {
    pub(super) feed: Arc<Feed>,
    pub(super) seat: Arc<Seat>,
    pub(super) outbox: Outbox,
}

impl Teller {
    /// Waits until the follower takes the message, but not for ever.
    pub(super) async fn tell(&self, message: Message) -> Result<(), Error> {
        let limit = self.feed.config.slow_reader_timeout;
        tokio::select! {
            told = timeout(limit, self.outbox.send(message)) => {
                told.unwrap_or(Err(Error::SlowReader { limit }))
            }
            () = self.feed.draining.cancelled() => Err(Error::Draining),
        }
    }

    /// Tells all of a snapshot, and the oldest revision that is kept where that is why; gives the
    /// place that the follower has then.
    pub(super) async fn tell_snapshot(
        &self,
        snapshot: &Snapshot,
        compacted: Option<Revision>,
    ) -> Result<(Revision, ChainHash), Error> {
        metrics::snapshot(if compacted.is_some() { "compacted" } else { "other" });
        let (position, entities) = (snapshot.position(), snapshot.catalog().len());
        let place = (position.revision, position.chain);
        let settings = snapshot.catalog().settings().len();
        let scope = snapshot.catalog().scope().clone();
        self.tell(Message::SnapshotBegin { position, scope, entities, settings, compacted })
            .await?;
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
        Ok(place)
    }

    /// Tells that there is nothing new up to a place.
    pub(super) async fn tell_progress(
        &self,
        (revision, chain): (Revision, ChainHash),
    ) -> Result<(), Error> {
        let registry = self.feed.store.registry().clone();
        self.seat.sent(revision);
        self.tell(Message::Progress(Position { registry, revision, chain })).await
    }

    /// Why nothing more can be told, when that happens.
    pub(super) async fn end(&self) -> Error {
        tokio::select! {
            () = self.feed.draining.cancelled() => Error::Draining,
            () = self.outbox.closed() => Error::Gone,
        }
    }
}
