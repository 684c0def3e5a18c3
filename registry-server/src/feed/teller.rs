//! Telling one follower something: as fast as it takes it, but not for ever.
//!
//! Deliberately absent: what is told, and when.

use std::sync::Arc;

use registry_core::{ChainHash, Revision};
use tokio::time::timeout;

use super::{
    Error, Feed, Message, Piece, Place, Shared, outbox::Outbox, roster::Seat, snapshot::Snapshot,
};
use crate::metrics;

/// One follower's ear.
pub(super) struct Teller {
    pub(super) feed: Arc<Feed>,
    pub(super) seat: Arc<Seat>,
    pub(super) outbox: Outbox,
    pub(super) wants: Wants,
}

/// What a relay wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wants {
    /// Every commit, however old.
    pub(super) history: bool,
    /// Only the signatures of a scope's states.
    pub(super) signatures: bool,
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
        for piece in &*snapshot.pieces().await {
            let mut piece = piece.clone();
            match (&**piece, compacted) {
                (Piece::Begin { .. }, Some(oldest)) => {
                    piece = Shared::new(snapshot.begin_instead_of(oldest));
                }
                (Piece::End(..), _) => self.seat.sent(snapshot.place().0),
                _ => {}
            }
            self.tell(Message::Snapshot(piece)).await?;
        }
        Ok(snapshot.place())
    }

    /// Tells that there is nothing new up to a place.
    pub(super) async fn tell_progress(&self, place: Arc<Shared<Place>>) -> Result<(), Error> {
        self.seat.sent(place.position.revision);
        self.tell(Message::Progress(place)).await
    }

    /// Why nothing more can be told, when that happens.
    pub(super) async fn end(&self) -> Error {
        tokio::select! {
            () = self.feed.draining.cancelled() => Error::Draining,
            () = self.outbox.closed() => Error::Gone,
        }
    }
}
