//! Sends messages to one follower, with a timeout for slow readers.

use std::{pin::pin, sync::Arc, time::Duration};

use registry_core::{ChainHash, Revision};
use tokio::time::{sleep, timeout};

use super::{
    Error, Feed, Heartbeat, Message, SharedMessage, SnapshotChunk, outbox::Outbox,
    sessions::FollowerSession, snapshot::Snapshot, stage_limits::StagePermit,
};
use crate::{access::QuotaKey, metrics};

/// Time that a stream may hold a permit for a snapshot; a slower stream continues without it.
const SNAPSHOT_PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends messages to one follower.
pub(super) struct FollowerSender {
    pub(super) feed: Arc<Feed>,
    pub(super) session: Arc<FollowerSession>,
    pub(super) outbox: Outbox,
    pub(super) options: RelayOptions,
    pub(super) caller: QuotaKey,
}

/// Options of a relay's stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct RelayOptions {
    /// Send every commit since the beginning.
    pub(super) history: bool,
    /// Send only the signatures of a scope's states.
    pub(super) signatures: bool,
}

impl FollowerSender {
    /// Sends a message, or fails if the follower does not read it in time.
    pub(super) async fn send(&self, message: Message) -> Result<(), Error> {
        // Usually there is room, and no timer is needed.
        let Some(message) = self.outbox.try_send(message)? else { return Ok(()) };
        let limit = self.feed.config.slow_reader_timeout;
        timeout(limit, self.outbox.send(message)).await.unwrap_or(Err(Error::SlowReader { limit }))
    }

    /// Sends a snapshot, with the oldest retained revision if that is the cause. Returns the position of the
    /// follower.
    pub(super) async fn send_snapshot(
        &self,
        snapshot: &Snapshot,
        compacted: Option<Revision>,
    ) -> Result<(Revision, ChainHash), Error> {
        metrics::snapshot_sent(if compacted.is_some() { "compacted" } else { "other" });
        // A snapshot has at least a start and an end.
        let chunks = snapshot.chunks().await;
        let (begin, rest) = chunks.split_at(1);
        let (rest, end) = rest.split_at(rest.len() - 1);
        match compacted {
            None => self.send_chunks(begin).await?,
            Some(oldest) => {
                let begin = SharedMessage::new(snapshot.begin_compacted(oldest));
                self.send(Message::Snapshot(begin)).await?;
            }
        }
        let permit = self.snapshot_permit().await?;
        let mut sending = pin!(async {
            self.send_chunks(rest).await?;
            self.session.sent(snapshot.position().0);
            self.send_chunks(end).await
        });
        // A slow reader must not block others.
        if let Ok(sent) = timeout(SNAPSHOT_PERMIT_TIMEOUT, &mut sending).await {
            sent?;
        } else {
            drop(permit);
            sending.await?;
        }
        Ok(snapshot.position())
    }

    async fn send_chunks(&self, chunks: &[Arc<SharedMessage<SnapshotChunk>>]) -> Result<(), Error> {
        for chunk in chunks {
            self.send(Message::Snapshot(chunk.clone())).await?;
        }
        Ok(())
    }

    /// Waits for a permit, and sends empty chunks as keepalives.
    async fn snapshot_permit(&self) -> Result<StagePermit, Error> {
        let mut permit = pin!(self.feed.stages.snapshots.acquire());
        loop {
            tokio::select! {
                permit = &mut permit => return Ok(permit),
                () = sleep(self.heartbeat_interval()) => {
                    let empty = SharedMessage::new(SnapshotChunk::Entities(Vec::new()));
                    self.send(Message::Snapshot(empty)).await?;
                }
            }
        }
    }

    /// Sends a heartbeat.
    pub(super) async fn send_heartbeat(
        &self,
        heartbeat: Arc<SharedMessage<Heartbeat>>,
    ) -> Result<(), Error> {
        self.session.sent(heartbeat.position.revision);
        self.send(Message::Heartbeat(heartbeat)).await
    }

    /// Maximum time between two messages.
    pub(super) fn heartbeat_interval(&self) -> Duration {
        retry_backoff::jittered_by(self.feed.config.heartbeat_interval, 0.1)
    }

    /// Completes when nothing more can be sent, with the cause.
    pub(super) async fn end(&self) -> Error {
        tokio::select! {
            () = self.feed.draining.cancelled() => Error::Draining,
            () = self.outbox.closed() => Error::Disconnected,
        }
    }
}
