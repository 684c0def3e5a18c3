//! Telling one follower something: as fast as it takes it, but not for ever.

use std::{pin::pin, sync::Arc, time::Duration};

use registry_core::{ChainHash, Revision};
use retry_backoff::jittered_by;
use tokio::time::{sleep, timeout};

use super::{
    Error, Feed, Message, Piece, Place, Shared, admission::Turn, outbox::Outbox, roster::Seat,
    snapshot::Snapshot,
};
use crate::{access::Caller, metrics};

/// How long a turn at a snapshot lasts; what is not told by then is told without one.
const TURN: Duration = Duration::from_secs(2);

/// One follower's ear.
pub(super) struct Teller {
    pub(super) feed: Arc<Feed>,
    pub(super) seat: Arc<Seat>,
    pub(super) outbox: Outbox,
    pub(super) wants: Wants,
    pub(super) caller: Caller,
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
        // Mostly there is room, and neither a timer nor a place among those who wait is needed.
        let Some(message) = self.outbox.try_send(message)? else { return Ok(()) };
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
        // There are always a beginning and an end.
        let pieces = snapshot.pieces().await;
        let (begin, rest) = pieces.split_at(1);
        let (rest, end) = rest.split_at(rest.len() - 1);
        match compacted {
            None => self.tell_pieces(begin).await?,
            Some(oldest) => {
                let begin = Shared::new(snapshot.begin_instead_of(oldest));
                self.tell(Message::Snapshot(begin)).await?;
            }
        }
        let turn = self.turn_at_snapshots().await?;
        let mut telling = pin!(async {
            self.tell_pieces(rest).await?;
            self.seat.sent(snapshot.place().0);
            self.tell_pieces(end).await
        });
        // Whoever reads slowly does not keep the others waiting.
        if let Ok(told) = timeout(TURN, &mut telling).await {
            told?;
        } else {
            drop(turn);
            telling.await?;
        }
        Ok(snapshot.place())
    }

    async fn tell_pieces(&self, pieces: &[Arc<Shared<Piece>>]) -> Result<(), Error> {
        for piece in pieces {
            self.tell(Message::Snapshot(piece.clone())).await?;
        }
        Ok(())
    }

    /// Waits for a turn; meanwhile a piece without entities tells that the stream is alive.
    async fn turn_at_snapshots(&self) -> Result<Turn, Error> {
        let mut turn = pin!(self.feed.admission.snapshots.take());
        loop {
            tokio::select! {
                turn = &mut turn => return Ok(turn),
                () = sleep(self.progress_interval()) => {
                    let nothing = Shared::new(Piece::Entities(Vec::new()));
                    self.tell(Message::Snapshot(nothing)).await?;
                }
                end = self.end() => return Err(end),
            }
        }
    }

    /// Tells that there is nothing new up to a place.
    pub(super) async fn tell_progress(&self, place: Arc<Shared<Place>>) -> Result<(), Error> {
        self.seat.sent(place.position.revision);
        self.tell(Message::Progress(place)).await
    }

    /// How long a follower is told nothing at most.
    pub(super) fn progress_interval(&self) -> Duration {
        jittered_by(self.feed.config.progress_interval, 0.1)
    }

    /// Why nothing more can be told, when that happens.
    pub(super) async fn end(&self) -> Error {
        tokio::select! {
            () = self.feed.draining.cancelled() => Error::Draining,
            () = self.outbox.closed() => Error::Gone,
        }
    }
}
