//! Receives the catalog and its commits over a Sync stream, and verifies them.

use std::time::Duration;

use registry_core::{
    Attestation, Catalog, Record, Revision, SealedCommit, Selector, Settings, chain::Position,
    setting::SelectorSettings,
};
use registry_follow::Stream;
use registry_proto::{
    convert,
    v1::{self, sync_request, sync_response},
};

use crate::{client::Client, failure::Failure, progress::Progress};

/// How long a server may be silent before a snapshot begins, or in the middle of one.
const PATIENCE: Duration = Duration::from_mins(1);

/// A message of the stream, and the registry's signature on the state after it.
pub(crate) type Told = (sync_response::Message, Option<Attestation>);

/// An open stream.
pub(crate) struct Follower {
    client: Client,
    stream: Stream,
}

impl Follower {
    /// Opens a stream for all of the registry after a position, or from nothing.
    pub(crate) async fn open(client: &Client, from: Option<&Position>) -> Result<Self, Failure> {
        let hello = v1::Hello {
            gateway: "registryctl".to_owned(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: None,
            observer: true,
            position: from.map(v1::Position::from),
            ..Default::default()
        };
        let stream = Stream::open(client.connection(), None, hello).await;
        let stream = stream.map_err(|status| client.failure(&status))?;
        Ok(Self { client: client.clone(), stream })
    }

    /// The next message, and the registry's signature on the state after it, where one came with it.
    /// An end of the stream is a failure: followers stay.
    pub(crate) async fn next(&mut self) -> Result<Told, Failure> {
        match self.stream.next().await {
            Ok(Some(v1::SyncResponse { message, attestation })) => {
                let empty = || Failure::answer("an empty message of the stream");
                let attestation = attestation.map(Attestation::try_from).transpose();
                Ok((message.ok_or_else(empty)?, attestation.map_err(Failure::answer)?))
            }
            Ok(None) => Err(self.client.failure(&tonic::Status::unavailable("the stream ended"))),
            Err(status) => Err(self.client.failure(&status)),
        }
    }

    async fn next_in_time(&mut self) -> Result<Told, Failure> {
        let silent = |_| Failure::answer(format!("silence for {} s", PATIENCE.as_secs()));
        tokio::time::timeout(PATIENCE, self.next()).await.map_err(silent)?
    }

    /// Tells the server how far this follower is.
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

    /// Follows a stream that was opened from nothing until the catalog is at this revision, or a later
    /// one, and signed if the server signs: a snapshot, perhaps an old one, and the commits after it.
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
                    let sealed = sealed.map_err(Failure::answer)?;
                    catalog.apply(&sealed).map_err(Failure::answer)?;
                    progress.advance(1);
                }
                // There is nothing new, so it is about the state that is here.
                sync_response::Message::Progress(_) => {}
                _ => return Err(Failure::answer("a second snapshot")),
            }
            catalog = catalog.with_attestation(attestation);
        }
        Ok(catalog)
    }

    /// Takes the snapshot with which a stream from nothing begins, and proves it.
    async fn snapshot(&mut self) -> Result<Catalog, Failure> {
        let (sync_response::Message::SnapshotBegin(begin), _) = self.next_in_time().await? else {
            return Err(Failure::answer("the stream does not begin with a snapshot"));
        };
        let v1::SnapshotBegin { position, entities, settings, .. } = begin;
        let position = read_position(position)?;
        let progress = Progress::bar("receiving", entities);
        let (mut records, mut sets) = (Vec::new(), Vec::new());
        let (digest, attestation) = loop {
            let (message, attestation) = self.next_in_time().await?;
            match message {
                sync_response::Message::SnapshotChunk(chunk) => {
                    let v1::SnapshotChunk { entities, settings } = chunk;
                    progress.advance(entities.len() as u64);
                    records.extend(read_records(entities)?);
                    sets.extend(convert::settings(settings).map_err(Failure::answer)?);
                }
                sync_response::Message::SnapshotEnd(v1::SnapshotEnd { digest }) => {
                    break (digest, attestation);
                }
                _ => return Err(Failure::answer("something else inside of a snapshot")),
            }
        };
        if (records.len() as u64, sets.len() as u64) != (entities, settings) {
            return Err(Failure::answer("the snapshot does not have as much as it claims"));
        }
        Ok(restore(position, sets, records, &digest)?.with_attestation(attestation))
    }
}

/// Reads the records of a part of a snapshot.
pub(crate) fn read_records(entities: Vec<v1::SnapshotEntity>) -> Result<Vec<Record>, Failure> {
    entities.into_iter().map(|entity| Record::try_from(entity).map_err(Failure::answer)).collect()
}

/// Makes a catalog of what was received, and proves it by the digest that came with it.
pub(crate) fn restore(
    Position { registry, revision, chain }: Position,
    settings: Vec<(Selector, SelectorSettings)>,
    records: Vec<Record>,
    digest: &[u8],
) -> Result<Catalog, Failure> {
    let received = records.len();
    let settings = Settings::restore(settings);
    let catalog = Catalog::restore(registry, revision, chain, records).with_settings(settings);
    let promised = convert::digest(digest).ok();
    // Of two records with one key, the catalog keeps one.
    if promised != Some(catalog.digest()) || catalog.len() != received {
        return Err(Failure::answer("the snapshot does not have the digest that it claims"));
    }
    Ok(catalog)
}

/// Reads the position of a snapshot.
pub(crate) fn read_position(position: Option<v1::Position>) -> Result<Position, Failure> {
    position
        .ok_or(convert::InvalidPosition::Missing)
        .and_then(Position::try_from)
        .map_err(Failure::answer)
}

/// Proves a delta against the position before it, and moves the position to it.
pub(crate) fn advance(position: &mut Position, delta: v1::Delta) -> Result<SealedCommit, Failure> {
    let sealed = convert::sealed_commit(&position.chain, delta).map_err(Failure::answer)?;
    if sealed.revision() != position.revision.next() {
        let (head, got) = (position.revision, sealed.revision());
        return Err(Failure::answer(format!("revision {got} cannot follow revision {head}")));
    }
    position.revision = sealed.revision();
    position.chain = sealed.chain();
    Ok(sealed)
}
