//! A snapshot in transfer: entities and settings are verified on arrival, the whole at the end.

use std::sync::Arc;

use registry_core::{
    Attestation, Catalog, Digest, Record, Scope, Selector, Settings, chain::Position,
    setting::SelectorSettings,
};
use registry_proto::{
    convert,
    v1::{SnapshotChunk, SnapshotEnd},
};

use registry_follow::RejectedMessage;

use super::{findings, incoming::run_blocking};
use crate::{catalog_verifier::CatalogVerifier, startup};

#[derive(Debug)]
pub(super) struct PartialSnapshot {
    position: Position,
    scope: Scope,
    /// The announced numbers of entities and settings.
    announced: (u64, u64),
    records: Vec<Record>,
    settings: Vec<(Selector, SelectorSettings)>,
}

impl PartialSnapshot {
    pub(super) fn new(position: Position, scope: Scope, announced: (u64, u64)) -> Self {
        Self { position, scope, announced, records: Vec::new(), settings: Vec::new() }
    }

    pub(super) async fn extended(mut self, chunk: SnapshotChunk) -> Result<Self, RejectedMessage> {
        let revision = self.position.revision;
        let part = run_blocking(move || {
            let SnapshotChunk { entities, settings } = chunk;
            let sent = entities.clone();
            let unfit = |e| RejectedMessage::new(revision, &e).with(findings::of_entities(&sent));
            let records = entities.into_iter().map(Record::try_from);
            let records = records.collect::<Result<Vec<_>, _>>().map_err(unfit)?;
            let settings = convert::settings(settings);
            Ok::<_, RejectedMessage>((
                records,
                settings.map_err(|e| RejectedMessage::new(revision, &e))?,
            ))
        });
        let (records, settings) = part.await??;
        self.records.extend(records);
        self.settings.extend(settings);
        let (entities, settings) = self.announced;
        if self.records.len() as u64 > entities || self.settings.len() as u64 > settings {
            let message =
                format!("more than the announced {entities} entities and {settings} settings");
            return Err(RejectedMessage::new(revision, &message));
        }
        Ok(self)
    }

    /// Verifies the complete snapshot.
    pub(super) async fn finished(
        self,
        SnapshotEnd { digest }: SnapshotEnd,
        signed: (Option<Attestation>, CatalogVerifier),
    ) -> Result<Catalog, RejectedMessage> {
        let Position { registry, revision, chain } = self.position.clone();
        let expected = Digest::parse(&digest).map_err(|e| RejectedMessage::new(revision, &e))?;
        let (announced, _) = self.announced;
        let restoring = run_blocking(move || {
            let catalog = Catalog::restore(registry, revision, chain, self.records)
                .with_settings(Settings::restore(self.settings))
                .with_scope(Arc::new(self.scope))
                .with_attestation(signed.0);
            let actual = catalog.digest();
            let problem = if catalog.len() as u64 != announced {
                format!("{} entities instead of {announced}", catalog.len())
            } else if actual != expected {
                format!("the snapshot has the digest {actual}, not {expected}")
            } else if let Err(e) = signed.1.verify_signature(&catalog) {
                e.to_string()
            } else {
                return Ok(catalog);
            };
            Err(RejectedMessage::new(revision, &problem).with(startup::missing(&catalog)))
        });
        restoring.await?
    }
}
