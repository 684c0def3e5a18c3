//! Receives the catalog and its commits over a Sync stream, and verifies them.

use std::time::Duration;

use registry_core::{
    Attestation, Catalog, Digest, Record, Revision, SealedCommit, Selector, Settings,
    chain::Position, setting::SelectorSettings,
};
use registry_follow::Stream;
use registry_proto::{
    convert,
    v1::{self, sync_request, sync_response},
};

use crate::{client::Client, failure::Failure, progress::Progress};

/// Maximum silence before and within a snapshot.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);

/// A message of the stream, and the registry's signature on the state after it.
pub(crate) type Received = (sync_response::Message, Option<Attestation>);

/// An open stream.
pub(crate) struct Follower {
    client: Client,
    stream: Stream,
}

impl Follower {
    /// Opens a stream for the whole registry, after a position or with a snapshot.
    pub(crate) async fn open(client: &Client, from: Option<&Position>) -> Result<Self, Failure> {
        let hello = v1::ClientHello {
            gateway: "registryctl".to_owned(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: None,
            mode: v1::FollowMode::Observer.into(),
            position: from.map(v1::LogPosition::from),
            ..Default::default()
        };
        let stream = Stream::open(client.stream_channel(), None, hello).await;
        let stream = stream.map_err(|status| client.failure(&status))?;
        Ok(Self { client: client.clone(), stream })
    }

    /// The next message. The end of the stream is a failure.
    pub(crate) async fn next(&mut self) -> Result<Received, Failure> {
        match self.stream.next().await {
            Ok(Some(v1::SyncResponse { message, attestation })) => {
                let empty = || Failure::invalid_response("the stream has an empty message");
                let attestation = attestation.map(Attestation::try_from).transpose();
                Ok((message.ok_or_else(empty)?, attestation.map_err(Failure::invalid_response)?))
            }
            Ok(None) => Err(self.client.failure(&tonic::Status::unavailable("the stream ended"))),
            Err(status) => Err(self.client.failure(&status)),
        }
    }

    async fn next_in_time(&mut self) -> Result<Received, Failure> {
        let timed_out = |_| {
            let seconds = SILENCE_TIMEOUT.as_secs();
            Failure::invalid_response(format!("no message within {seconds} s"))
        };
        tokio::time::timeout(SILENCE_TIMEOUT, self.next()).await.map_err(timed_out)?
    }

    /// Acknowledges a position.
    pub(crate) async fn acknowledge(&self, position: &Position) {
        let revision = position.revision.0;
        let ack = v1::Ack {
            applied_revision: revision,
            persisted_revision: revision,
            ..Default::default()
        };
        let message = Some(sync_request::Message::Ack(ack));
        self.stream.send(v1::SyncRequest { message }).await;
    }

    /// Reads a snapshot and commits until the catalog has at least this revision, and a signature if the
    /// server signs.
    pub(crate) async fn catalog(&mut self, head: Revision) -> Result<Catalog, Failure> {
        let mut catalog = self.snapshot().await?;
        let is_signed = catalog.attestation().is_some();
        let missing = head.0.saturating_sub(catalog.revision().0);
        let progress = Progress::bar("receiving", missing);
        while catalog.revision() < head || is_signed && catalog.attestation().is_none() {
            let (message, attestation) = self.next_in_time().await?;
            match message {
                sync_response::Message::Delta(delta) => {
                    let sealed = convert::sealed_commit(&catalog.chain(), delta);
                    let sealed = sealed.map_err(Failure::invalid_response)?;
                    catalog.apply(&sealed).map_err(Failure::invalid_response)?;
                    progress.advance(1);
                }
                // A heartbeat: its signature is about the current state.
                sync_response::Message::Heartbeat(_) => {}
                _ => return Err(Failure::invalid_response("the stream has a second snapshot")),
            }
            catalog = catalog.with_attestation(attestation);
        }
        Ok(catalog)
    }

    /// Reads and verifies the snapshot at the start of a stream.
    async fn snapshot(&mut self) -> Result<Catalog, Failure> {
        let (sync_response::Message::SnapshotBegin(begin), _) = self.next_in_time().await? else {
            return Err(Failure::invalid_response("the stream does not begin with a snapshot"));
        };
        let v1::SnapshotBegin { position, entity_count, setting_count, .. } = begin;
        let position = read_position(position)?;
        let progress = Progress::bar("receiving", entity_count);
        let (mut records, mut sets) = (Vec::new(), Vec::new());
        let (digest, attestation) = loop {
            let (message, attestation) = self.next_in_time().await?;
            match message {
                sync_response::Message::SnapshotChunk(chunk) => {
                    let v1::SnapshotChunk { entities, settings } = chunk;
                    progress.advance(entities.len() as u64);
                    records.extend(read_records(entities)?);
                    sets.extend(convert::settings(settings).map_err(Failure::invalid_response)?);
                }
                sync_response::Message::SnapshotEnd(v1::SnapshotEnd { digest }) => {
                    break (digest, attestation);
                }
                _ => return Err(Failure::invalid_response("a snapshot has an unexpected message")),
            }
        };
        if (records.len() as u64, sets.len() as u64) != (entity_count, setting_count) {
            return Err(Failure::invalid_response("the snapshot is incomplete"));
        }
        Ok(restore(position, sets, records, &digest)?.with_attestation(attestation))
    }
}

/// Converts the records of a part of a snapshot.
pub(crate) fn read_records(entities: Vec<v1::SnapshotEntity>) -> Result<Vec<Record>, Failure> {
    entities
        .into_iter()
        .map(|entity| Record::try_from(entity).map_err(Failure::invalid_response))
        .collect()
}

/// Builds a catalog and verifies its digest.
pub(crate) fn restore(
    Position { registry, revision, chain }: Position,
    settings: Vec<(Selector, SelectorSettings)>,
    records: Vec<Record>,
    digest: &str,
) -> Result<Catalog, Failure> {
    let received = records.len();
    let settings = Settings::restore(settings);
    let catalog = Catalog::restore(registry, revision, chain, records).with_settings(settings);
    let expected = Digest::parse(digest).ok();
    // The catalog drops duplicate keys.
    if expected != Some(catalog.digest()) || catalog.len() != received {
        return Err(Failure::invalid_response("the digest of the snapshot is wrong"));
    }
    Ok(catalog)
}

/// Converts the position of a snapshot.
pub(crate) fn read_position(position: Option<v1::LogPosition>) -> Result<Position, Failure> {
    position
        .ok_or(convert::InvalidPosition::Missing)
        .and_then(Position::try_from)
        .map_err(Failure::invalid_response)
}

/// Verifies a delta against the position before it, and advances the position.
pub(crate) fn advance(position: &mut Position, delta: v1::Delta) -> Result<SealedCommit, Failure> {
    let sealed =
        convert::sealed_commit(&position.chain, delta).map_err(Failure::invalid_response)?;
    if sealed.revision() != position.revision.next() {
        let (head, got) = (position.revision, sealed.revision());
        return Err(Failure::invalid_response(format!(
            "revision {got} cannot follow revision {head}"
        )));
    }
    position.revision = sealed.revision();
    position.chain = sealed.chain();
    Ok(sealed)
}
